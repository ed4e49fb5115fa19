#!/usr/bin/env python3
"""A campaign of 60 runs that is killed and resumed: tests/reliability/campaign.py [KILLS] [SEED] [LAUNCHER]

lockstep gets SIGKILL at random instants and goes on with --resume. At the end it must say what one says that nobody
killed, apart from times and logs, which name ports and nodes. A campaign that ends before its last kill is compared,
and another one begins. LAUNCHER "slurm" takes the Slurm that SLURM_CONF names; it must not submit a run twice, unless
the run failed while nobody looked.
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
    # So that no control runs take most of the time.
    checks[1]["expect"] = {"status": "divergence", "reason": "another seed"}
    return scenario(0, variants=variants, repeats=REPEATS, checks=checks)


class Campaign:
    def __init__(self, folder, launcher):
        self.launcher = launcher
        self.folder, self.out, self.result = folder, folder / "runs", folder / "result.json"
        self.file = folder / "campaign.json"
        self.file.write_text(json.dumps(campaign()))

    def start(self):
        command = [str(LOCKSTEP), "run", str(self.file), "--out", str(self.out), "--json", str(self.result)]
        if self.launcher:
            command += ["--launcher", self.launcher]
        if (self.out / "campaign.json").exists():
            command.append("--resume")
        with open(self.folder / "said", "w") as said:
            return subprocess.Popen(command, stdout=said, stderr=said)

    def ended(self):
        """The result without its time and logs; the folder is empty again."""
        result = json.loads(self.result.read_text())
        del result["wall_s"]
        for run in result["failed_runs"]:
            del run["log_tail"]
        shutil.rmtree(self.out)
        self.result.unlink()
        return result


def difference(expected, actual, at="result"):
    """The first place where two results differ."""
    if isinstance(expected, dict) and isinstance(actual, dict) and expected.keys() == actual.keys():
        pairs = [(f"{at}.{key}", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = [(f"{at}.{index}", *pair) for index, pair in enumerate(zip(expected, actual))]
    else:
        return f"{at}: {expected!r}, but {actual!r}"
    return next(difference(left, right, place) for place, left, right in pairs if left != right)


def submitted():
    """The number of a new job of Slurm."""
    return int(subprocess.run(["sbatch", "--parsable", "--output=/dev/null", "--wrap=true"], capture_output=True,
                              text=True, check=True).stdout)


def main(kills, seed, launcher=""):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        one = Campaign(pathlib.Path(name), launcher)
        begin, first = time.monotonic(), submitted() if launcher == "slurm" else 0
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
            ended = one.ended()
            if ended != expected:
                different += 1
                print(f"{killed} kills: not {difference(expected, ended)}")
            if killed == kills:
                break
        jobs = ""
        if launcher == "slurm":
            jobs = f"{submitted() - first - 1} jobs for {(compared + 1) * VARIANTS * REPEATS} runs, "
    print(f"{jobs}{VARIANTS * REPEATS} runs, {killed} kills with seed {seed}: {compared} campaigns ended, "
          f"{different} with another result; {time.monotonic() - begin:.1f} s")
    return 1 if different else 0


if __name__ == "__main__":
    kills, seed, *launcher = sys.argv[1:] + ["100", "1"][len(sys.argv) - 1:]
    sys.exit(main(int(kills), int(seed), *launcher))
