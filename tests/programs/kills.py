"""Kills recorded trainings at random moments: each trace is whole, or torn with its reason, and never taken for green.

kills.py [--count 200] [--seed N]. Most trainings are forks of this process, one rank or two; every twentieth is started
by `lockstep record`. Exits with 1 where a kill was judged wrongly, and says which; the seed makes it come again.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch  # once: forks have it
import torch.distributed as dist

from programs import LOCKSTEP, environment, free_port, lockstep, start_here

TRAIN = """
import os, time, torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
ranks = int(os.environ.get("WORLD_SIZE", 1))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
if ranks > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(64, 16), torch.randn(64, 1))
for epoch in range(3):
    for x, y in DataLoader(data, 4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        time.sleep(0.001)
    torch.save(model.state_dict(), f"{os.environ['LOCKSTEP_RECORD']}.{os.environ.get('RANK', 0)}.pt")
if ranks > 1:
    dist.destroy_process_group()
"""

#: Exit codes of lockstep.
AGREE, INVALID, INCONCLUSIVE = 0, 2, 4


class Kills:
    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.script = folder / "train.py"
        self.script.write_text(TRAIN)
        self.wrong, self.endings = [], collections.Counter()
        self.healthy, self.size = {}, {}
        for ranks in (1, 2):
            self.healthy[ranks] = self.folder / f"healthy{ranks}"
            children = self.start(self.healthy[ranks], ranks)
            codes = [self.end(child) for child in children]
            if codes != [0] * ranks:
                raise RuntimeError(f"a training of {ranks} ranks that nobody kills ends with {codes}")
            self.size[ranks] = (self.healthy[ranks] / "rank0.jsonl").stat().st_size

    def start(self, run, ranks):
        common = {"LOCKSTEP_RECORD": str(run), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port())}
        return [start_here(self.script, self.folder, {**common, "RANK": str(rank)}) for rank in range(ranks)]

    def wait_for(self, run, share, ranks):
        """Until there is this share of a whole trace: a time would not hold on a machine that others use, too."""
        deadline = time.monotonic() + 20
        trace = run / "rank0.jsonl"
        while time.monotonic() < deadline and not (trace.exists() and
                                                   trace.stat().st_size >= share * self.size[ranks]):
            time.sleep(0.0005)
        time.sleep(self.random.uniform(0, 0.003))

    @staticmethod
    def end(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def kill(self, number):
        run = self.folder / f"run{number}"
        ranks = 2 if number % 5 == 4 else 1
        share = self.random.uniform(0, 1)
        if number % 20 == 19:
            self.kill_command(run, share)
            ranks = 1
        else:
            children = self.start(run, ranks)
            if number % 4 == 3:  # while it starts
                time.sleep(self.random.uniform(0, 0.5))
            else:
                self.wait_for(run, share, ranks)
            for child in self.random.sample(children, ranks):  # one after the other, as a cluster does
                os.kill(child, signal.SIGKILL)
            for child in children:
                self.end(child)
        for why in self.judge(run, ranks):
            self.wrong.append(f"kill {number}, at {share:.3f} of the trace: {why}")
        shutil.rmtree(run, ignore_errors=True)

    def kill_command(self, run, share):
        """A process that `lockstep record` has started."""
        command = [LOCKSTEP, "record", "--out", run, "--", sys.executable, "-c",
                   "import os; print(os.getpid(), flush=True); " + f"exec(open({str(self.script)!r}).read())"]
        with subprocess.Popen(list(map(str, command)), cwd=self.folder, env=environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as record:
            child = int(record.stdout.readline())
            self.wait_for(run, share, 1)
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was done
            code = record.wait()
            if code not in (0, 128 + signal.SIGKILL):
                self.wrong.append(f"record ended with {code}")

    def judge(self, run, ranks):
        """What is wrong with how a killed training is seen."""
        if not (run / "rank0.jsonl").exists():
            self.endings["nothing recorded"] += 1
            shown = lockstep("show", run)
            return [] if shown.returncode == INVALID else [f"show of nothing exits with {shown.returncode}"]
        shown, compared = lockstep("show", run), self.diff(self.healthy[ranks], run)
        failed = (run / "command.json").exists() and json.loads((run / "command.json").read_text())["exit_code"] != 0
        if shown.returncode == AGREE and not failed:
            self.endings["whole"] += 1
            return [] if compared == AGREE else [f"the trace is whole, and diff exits with {compared}"]
        self.endings["whole, but its command failed" if shown.returncode == AGREE else "torn"] += 1
        wrong = []
        if shown.returncode == AGREE:
            pass
        elif shown.returncode not in (INCONCLUSIVE, INVALID):
            wrong.append(f"show exits with {shown.returncode}: {shown.stderr}")
        elif "torn" not in shown.stdout + shown.stderr and "missing" not in shown.stdout + shown.stderr:
            wrong.append(f"show gives no reason: {shown.stdout[-500:]}{shown.stderr}")
        for code in (compared, self.diff(run, run)):
            if code not in (INCONCLUSIVE, INVALID):
                wrong.append(f"diff of a torn trace exits with {code}")
        return wrong

    @staticmethod
    def diff(left, right):
        return lockstep("diff", left, right).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("LOCKSTEP_CI_SEED", 0)))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    assert dist.is_available()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-kills-"))
    try:
        kills = Kills(folder, asked.seed)
        for number in range(asked.count):
            kills.kill(number)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    endings = ", ".join(f"{count} {ending}" for ending, count in sorted(kills.endings.items()))
    print(f"{asked.count} kills, seed {asked.seed}: {endings}; {len(kills.wrong)} judged wrongly")
    for why in kills.wrong:
        print(f"WRONG    {why}")
    return 1 if kills.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
