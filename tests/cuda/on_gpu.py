"""What only a machine with a GPU can tell: on_gpu.py --worker build-cuda/bin/lockstep-worker [--out DIR] [STEP …]

Needs an NVIDIA GPU; the ranks share it, over Gloo. Each step is a command whose exit code is expected to be 0; its
output goes to DIR/<step>.log. The steps run side by side, and the table at the end says which of them hold.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ON_GPU = ["--set", "train.device=cuda", "--set", "train.ddp.backend=gloo"]
#: Each rank takes half a gigabyte of the GPU for itself.
JOBS = ["--jobs", "16"]
#: Of the tests of parity, which run side by side.
SHARDS = 3


def without_goldens(folder, out):
    """The scenarios of a folder without their goldens, which exist for CPUs alone, and without what names them."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / folder).glob("*.jsonc")):
        scenario = json.loads(re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.M))
        scenario["checks"] = [check for check in scenario["checks"] if check["that"] != "golden"]
        scenario.pop("practices", None)
        text = json.dumps(scenario).replace('"../data/', f'"{ROOT}/scenarios/data/')
        (out / f"{file.stem}.json").write_text(text)
    return out


def steps_of(options):
    """Lanes of (name, command, environment); a lane's steps run one after the other."""
    lockstep = str(options.lockstep)
    worker = ["--worker", str(options.worker)]
    jobs = [*worker, *JOBS]
    here = ROOT / "tests/cuda"
    gate = without_goldens("scenarios/gate", options.out / "gate")
    parity = {"LOCKSTEP_CUDA_WORKER": str(options.worker), "LOCKSTEP_TEST_PART": options.part,
              "GTEST_TOTAL_SHARDS": str(SHARDS)}
    part = ["--part", options.part]
    return [
        [("doctor", [lockstep, "doctor", *worker, str(here / "smallest.json")], {}),
         ("collectives", [lockstep, "doctor", "--collectives", "--over", "nccl", "--ranks", "1", *worker,
                          str(here / "smallest.json")], {}),
         ("smallest", [lockstep, "run", str(here / "smallest.json"), *worker], {}),
         ("programs", [lockstep, "run", str(here / "programs.json")], {}),
         ("mistakes", [lockstep, "faults", str(here / "mistakes.json")], {})],
        [("trainings", [lockstep, "run", str(here / "trainings.json"), *jobs], {}),
         ("gate", [lockstep, "run", str(gate), *ON_GPU, *jobs], {})],
        [("alone", [lockstep, "faults", str(ROOT / "scenarios/alone"), *part, *ON_GPU, *jobs], {}),
         ("faults", [lockstep, "faults", str(ROOT / "scenarios/faults"), *part, *ON_GPU, *jobs], {})],
        [("clean", [sys.executable, str(ROOT / "tests/bench/clean_laws.py"), "--part", options.part, "--lockstep",
                    lockstep, *ON_GPU, *worker], {})],
        *([(f"parity-{shard}", [str(options.parity)], {**parity, "GTEST_SHARD_INDEX": str(shard)})]
          for shard in range(SHARDS)),
    ]


def run_lane(lane, options):
    results = []
    for name, command, environment in lane:
        if options.steps and name not in options.steps:
            continue
        begin = time.monotonic()
        with open(options.out / f"{name}.log", "w") as log:
            log.write(" ".join(command) + "\n")
            log.flush()
            try:
                status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **environment}, timeout=options.limit).returncode
            except subprocess.TimeoutExpired:
                status = 124
        results.append((name, status, time.monotonic() - begin))
        print(f"{name}: exit code {status} after {results[-1][2]:.0f} s", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=pathlib.Path, required=True)
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/bin/lockstep")
    parser.add_argument("--parity", type=pathlib.Path, default=ROOT / "build/bin/test_parity")
    parser.add_argument("--part", default="1/1", help="of the cases of parity, faults and clean trainings: K/N")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a step may take")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("on-gpu"))
    parser.add_argument("steps", nargs="*")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lanes = steps_of(options)
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        results = [one for lane in pool.map(lambda lane: run_lane(lane, options), lanes) for one in lane]
    failed = [name for name, status, _ in results if status]
    print(f"on_gpu: {len(results)} steps, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
