#!/usr/bin/env python3
"""Many locksteps at once, with port 29500 taken: tests/reliability/concurrent.py [LAUNCHES]

Each launch trains with a seed of its own, twice. None may fail, and none may hear of another: its repeats are equal,
and its weights are those that the same training has when it runs alone.
"""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from training import LOCKSTEP, scenario

TAKEN = 29500  # the default port of torch.distributed


def take(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:  # somebody else has it: as good
        listener.close()
    return listener


def start(folder, seed, name):
    file = folder / f"seed{seed}.json"
    file.write_text(json.dumps(scenario(seed)))
    with open(folder / f"{name}.said", "w") as said:
        return subprocess.Popen([str(LOCKSTEP), "run", str(file), "--out", str(folder / name)], stdout=said,
                                stderr=said)


def last_weights(folder, seed, repeat):
    """Digests of the weights after the last update."""
    lines = (folder / f"seed{seed}/main/{repeat}/rank0.jsonl").read_text().splitlines()
    return [record["digest"] for record in json.loads(lines[-2])["weight"]]


def main(launches):
    listener = take(TAKEN)
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        begin = time.monotonic()
        processes = [start(folder, seed, f"together{seed}") for seed in range(launches)]
        codes = [process.wait() for process in processes]
        wall_s = time.monotonic() - begin
        for seed, code in enumerate(codes):
            if code != 0:
                failed.append(f"launch {seed}: exit code {code}:\n" + (folder / f"together{seed}.said").read_text())
        alone = range(0, launches, max(1, launches // 10))
        for seed in alone:
            if start(folder, seed, f"alone{seed}").wait() != 0:
                failed.append(f"seed {seed} fails alone")
            elif codes[seed] == 0 and any(last_weights(folder / f"together{seed}", seed, repeat) !=
                                          last_weights(folder / f"alone{seed}", seed, 0) for repeat in (0, 1)):
                failed.append(f"seed {seed} has other weights than alone")
        weights = {json.dumps(last_weights(folder / f"together{seed}", seed, 0))
                   for seed, code in enumerate(codes) if code == 0}
        if len(weights) != codes.count(0):
            failed.append(f"{codes.count(0)} seeds have {len(weights)} different weights")
    listener.close()
    print("\n".join(failed + [f"{launches} launches at once, port {TAKEN} taken: {codes.count(0)} agree, "
                              f"{len(failed)} complaints, {len(alone)} compared with a launch alone; {wall_s:.1f} s"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
