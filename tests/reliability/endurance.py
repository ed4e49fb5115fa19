#!/usr/bin/env python3
"""Many runs in one lockstep: tests/reliability/endurance.py [RUNS]

While they run, the descriptors, processes and memory of lockstep are looked at, and the files in /dev/shm. The first
fifth warms up. After it nothing may grow: no later fifth holds more than the second one, and memory grows by at most 1
% in 100 runs.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from training import LOCKSTEP, scenario

REPEATS = 4
PARTS = 5
PASSING = 4  # descriptors and processes that a look may catch or miss: files that are just read, ranks that just end
MOST_GROWTH = 0.01  # of the memory, in 100 runs


def children_of(pid):
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        children += (task / "children").read_text().split()
    return children


def look(pid, folder):
    """One look: runs that have ended, and what lockstep holds. Nothing once it is gone."""
    try:
        memory = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return {"ended": sum(1 for _ in folder.glob("*/*/*/outcome.json")), "memory": memory,
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "processes": len(children_of(pid)),
                "shared memory": len(os.listdir("/dev/shm"))}
    except OSError:
        return None


def growth(looks, runs):
    """What grew, as sentences."""
    parts = [[one for one in looks if part * runs / PARTS <= one["ended"] < (part + 1) * runs / PARTS]
             for part in range(PARTS)]
    if not all(parts):
        return [f"too few looks: {[len(part) for part in parts]}"]
    complaints = []
    for what in ("descriptors", "processes", "shared memory"):
        most = [max(one[what] for one in part) for part in parts]
        print(f"{what}: at most {most} in each fifth")
        if max(most[2:]) > most[1] + PASSING:
            complaints.append(f"{what} grow: {most}")
    begin, end = parts[1][0], looks[-1]
    hundreds = (end["ended"] - begin["ended"]) / 100
    drift = (end["memory"] / begin["memory"] - 1) / max(hundreds, 1)
    print(f"memory: {begin['memory'] >> 10} KiB after {begin['ended']} runs, "
          f"{end['memory'] >> 10} KiB after {end['ended']}: {drift:+.2%} in 100 runs")
    if drift > MOST_GROWTH:
        complaints.append(f"memory grows by {drift:.1%} in 100 runs")
    return complaints


def main(runs):
    variants = {f"v{number}": {"train": {"seed": {"base": number}}} for number in range(runs // REPEATS)}
    runs = len(variants) * REPEATS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file = folder / "endurance.json"
        file.write_text(json.dumps(scenario(0, variants=variants, repeats=REPEATS)))
        begin = time.monotonic()
        with open(folder / "said", "w") as said:
            # Bytes of one arena: how many there are depends on how busy the machine is.
            process = subprocess.Popen([str(LOCKSTEP), "run", str(file), "--out", str(folder / "runs")], stdout=said,
                                       stderr=said, env={**os.environ, "MALLOC_ARENA_MAX": "1"})
        looks = []
        while process.poll() is None:
            one = look(process.pid, folder / "runs")
            if one and one["ended"] < runs:  # then it judges, and reads all traces
                looks.append(one)
            time.sleep(0.02)
        complaints = growth(looks, runs)
        if process.returncode != 0:
            complaints.append(f"exit code {process.returncode}:\n" + (folder / "said").read_text()[-2000:])
    print("\n".join(complaints + [f"{runs} runs in one lockstep: {len(complaints)} complaints; "
                                  f"{time.monotonic() - begin:.1f} s"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
