"""Python's DistributedDataParallel as the oracle of lockstep's C++ worker; see README.md.

    torchrun --nproc-per-node W twin.py --cases CASES.json --out DIR
    python twin.py --spawn W            --cases CASES.json --out DIR
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True


def run_cases(cases_file, out_dir):
    """One rank: joins the group once, then runs every case."""
    from datetime import timedelta

    import torch.distributed as dist

    from training import train

    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    for case in json.loads(cases_file.read_text()):
        spec = case["spec"]
        if spec["world_size"] != dist.get_world_size():
            raise ValueError(f"{case['name']} wants {spec['world_size']} ranks, here are {dist.get_world_size()}")
        folder = out_dir / case["name"]
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"rank{dist.get_rank()}.jsonl", "w") as out:
            try:
                train(spec["train"], spec.get("files", {}), out, case.get("foreach"))
            except Exception as error:
                error.add_note(f"in case {case['name']!r}")
                raise
    dist.destroy_process_group()


def spawn(world_size, arguments, deadline):
    """Starts the ranks on this machine; returns 0 when all of them succeed in time."""
    environment = {
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        **os.environ,
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ranks = []
    try:
        for rank in range(world_size):
            ranks.append(
                subprocess.Popen(
                    [sys.executable, __file__, *arguments],
                    env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
            )
        end = time.monotonic() + deadline
        while any(rank.poll() is None for rank in ranks):
            if any(rank.returncode for rank in ranks):
                break
            if time.monotonic() > end:
                print(f"twin: not done after {deadline} s", file=sys.stderr)
                return 1
            time.sleep(0.02)
        failed = [i for i, rank in enumerate(ranks) if rank.returncode]
        if failed:
            print(f"twin: failed: rank {', '.join(map(str, failed))}", file=sys.stderr)
        return 1 if failed else 0
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def free_port():
    """Below the range from which the kernel takes ports for outgoing connections, so that none takes it meanwhile."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help='JSON: [{"name": ..., "spec": ...}, ...]')
    parser.add_argument("--out", type=Path, required=True, help="folder for NAME/rankR.jsonl")
    parser.add_argument("--spawn", type=int, metavar="W", help="start W ranks here instead of being one")
    parser.add_argument("--deadline", type=float, default=600, metavar="SECONDS", help="of --spawn")
    options = parser.parse_args()
    if options.spawn is None:
        run_cases(options.cases, options.out)
        # A library's thread that asks for the interpreter's lock during its shutdown aborts the process (seen once in
        # a hundred ranks); all files are closed, so nothing is left to do.
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return spawn(options.spawn, ["--cases", str(options.cases), "--out", str(options.out)], options.deadline)


if __name__ == "__main__":
    sys.exit(main())
