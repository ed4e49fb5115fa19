#!/usr/bin/env python3
"""A campaign of 60 runs that is killed and resumed: tests/reliability/campaign.py [KILLS] [SEED]

lockstep gets SIGKILL at random instants and goes on with --resume. At the end it must say what one says that nobody killed, apart
from times. A campaign that ends before its last kill is compared, and another one begins.
"""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from training import LOCKSTEP, scenario

VARIANTS, REPEATS = 15, 4


def campaign():
    """One variant loses a rank, and another computes something else than the first."""
    variants = {f"v{number}": {"train": {"seed": {"base": 0}}} for number in range(VARIANTS)}
    variants["v1"] = {"train": {"seed": {"base": 1}}}
    variants["v2"]["train"]["faults"] = [{"kind": "kill", "step": 2, "rank": 1}]
    finishing = [name for name in variants if name != "v2"]
    checks = [{"that": "repeatable", "variants": finishing}, {"that": "equal", "variants": finishing, "on": ["weight"]},
              {"that": "finishes", "variants": ["v2"],
               "expect": {"status": "divergence", "reason": "a rank is killed", "at": {"step": 2, "rank": 1}}}]
    checks[1]["expect"] = {"status": "divergence", "reason": "another seed"}  # so that no control runs take most of the time
    return scenario(0, variants=variants, repeats=REPEATS, checks=checks)


class Campaign:
    def __init__(self, folder):
        self.folder, self.out, self.result = folder, folder / "runs", folder / "result.json"
        self.file = folder / "campaign.json"
        self.file.write_text(json.dumps(campaign()))

    def start(self):
        command = [str(LOCKSTEP), "run", str(self.file), "--out", str(self.out), "--json", str(self.result)]
        if (self.out / "campaign.json").exists():
            command.append("--resume")
        with open(self.folder / "said", "w") as said:
            return subprocess.Popen(command, stdout=said, stderr=said)

    def ended(self):
        """The result without its time; the folder is empty again."""
        result = json.loads(self.result.read_text())
        del result["wall_s"]
        shutil.rmtree(self.out)
        self.result.unlink()
        return result


def main(kills, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        one = Campaign(pathlib.Path(name))
        begin = time.monotonic()
        one.start().wait()
        whole_s = time.monotonic() - begin
        expected = one.ended()
        if expected["runs_finished"] != (VARIANTS - 1) * REPEATS or expected["status"] != "agree":
            print((one.folder / "said").read_text())
            return 1
        killed = compared = different = 0
        while True:
            process = one.start()
            if killed < kills:
                try:
                    process.wait(timeout=dice.uniform(0, whole_s / 3))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
            process.wait()
            if not one.result.exists():
                continue
            compared += 1
            different += one.ended() != expected
            if killed == kills:
                break
    print(f"{VARIANTS * REPEATS} runs, {killed} kills with seed {seed}: {compared} campaigns ended, {different} with another result; "
          f"{time.monotonic() - begin:.1f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in (sys.argv[1:] + ["100", "1"][len(sys.argv) - 1:]))))
