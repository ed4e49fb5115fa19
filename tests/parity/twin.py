"""Python's DistributedDataParallel as the oracle of lockstep's C++ worker; see README.md.

    torchrun --nproc-per-node W twin.py --cases CASES.json --out DIR
    python twin.py --spawn W            --cases CASES.json --out DIR
    python twin.py --serve
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True


def run_cases(cases_file, out_dir):
    """One rank: joins the group once, then runs every case."""
    from datetime import timedelta

    import torch.distributed as dist

    from training import train

    cases = json.loads(cases_file.read_text())
    on_gpu = any(case["spec"]["train"]["device"] == "cuda" for case in cases)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=timedelta(seconds=120))
    for case in cases:
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


def fork_rank(cases_file, out_dir, environment, log):
    """Starts one rank, which finds torch loaded; returns its process id."""
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ.update(environment)
        if log is not None:
            os.dup2(log, 1)
            os.dup2(log, 2)
        run_cases(cases_file, out_dir)
        sys.stdout.flush()
        # A library's thread that asks for the interpreter's lock during its shutdown aborts the process (seen once in
        # a hundred ranks); all files are closed, so nothing is left to do.
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def spawn(world_size, cases_file, out_dir, deadline, log=None):
    """Runs the cases on as many ranks of this machine; returns 0 when all of them succeed in time."""

    place = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    parent = os.getppid()
    running, failed = {}, []
    try:
        for rank in range(world_size):
            ranks_place = {**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            running[fork_rank(cases_file, out_dir, ranks_place, log)] = rank
        end = time.monotonic() + deadline
        while running and not failed:
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    rank = running.pop(pid)
                    failed += [rank] if status else []
            if time.monotonic() > end:
                print(f"twin: not done after {deadline} s", file=sys.stderr)
                return 1
            if os.getppid() != parent:
                return 1  # whoever asked is gone
            time.sleep(0.005)
        if failed:
            print(f"twin: failed: rank {', '.join(map(str, failed))}", file=sys.stderr)
        return 1 if failed else 0
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def serve(deadline):
    """Answers each line {"world_size": …, "cases": FILE, "out": DIR} with a line that holds the exit code of --spawn.

    What the ranks say goes to DIR.log.
    """
    # Once, for every rank of every request: this takes seconds.
    import accelerate  # noqa: F401

    import formats  # noqa: F401
    import training  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        out = Path(request["out"])
        log = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            status = spawn(request["world_size"], Path(request["cases"]), out, deadline, log)
        finally:
            os.close(log)
        print(status, flush=True)
    return 0


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
    parser.add_argument("--cases", type=Path, help='JSON: [{"name": ..., "spec": ...}, ...]')
    parser.add_argument("--out", type=Path, help="folder for NAME/rankR.jsonl")
    parser.add_argument("--spawn", type=int, metavar="W", help="start W ranks here instead of being one")
    parser.add_argument("--serve", action="store_true", help="take such requests from stdin, one JSON object a line")
    parser.add_argument("--deadline", type=float, default=600, metavar="SECONDS", help="of --spawn and each request")
    options = parser.parse_args()
    if not options.serve and not (options.cases and options.out):
        parser.error("--cases and --out are needed")
    if not options.serve and options.spawn is None:
        run_cases(options.cases, options.out)
        os._exit(0)  # see fork_rank
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.serve:
        return serve(options.deadline)
    return spawn(options.spawn, options.cases, options.out, options.deadline)


if __name__ == "__main__":
    sys.exit(main())
