#!/usr/bin/env python3
"""Ranks on two hosts that meet over a network: tests/reliability/hosts.py

The hosts are network namespaces with an address each. torchrun's agents stand in them, static and c10d: traces are
those of ranks that lockstep starts itself, byte for byte. Then the link between them is cut in the midst of a
training: the run is called hung or failed soon, and no process is left. Needs root; exit code 77: this machine makes
no namespaces, or has no torchrun in PATH.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from training import LOCKSTEP, scenario

STALL_S, LATE_S = 20, 5  #: how long a silent run is watched, and how much later its end may be told
SHIM = """#!/bin/bash
# An agent on a host of its own: the one of its number, else the first that is free.
host=0
for ((i = 1; i < $#; i++)); do [[ ${!i} == --node-rank ]] && next=$((i + 1)) && host=$((${!next} + 1)); done
for try in 1 2; do ((host > 0)) || { mkdir "taken$try" 2>/dev/null && host=$try; }; done
conf=()
[[ " $* " != *" --rdzv-backend "* ]] || conf=(--rdzv-conf "is_host=$((host == 1))")  # its name has no address here
exec ip netns exec "$LOCKSTEP_HOSTS$host" env GLOO_SOCKET_IFNAME="$LOCKSTEP_HOSTS$host" TORCHRUN \\
  --local-addr "10.77.0.$host" "${conf[@]}" "${@//127.0.0.1/10.77.0.1}"
"""


def system(*words, check=True):
    return subprocess.run(list(map(str, words)), check=check, capture_output=True, text=True)


class Hosts:
    """Two network namespaces, joined by a pair of virtual interfaces."""

    def __init__(self):
        self.names = [f"ls{os.getpid() % 100000}h{number}" for number in (1, 2)]

    def __enter__(self):
        try:
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self):
        first, second = self.names
        for name in self.names:
            system("ip", "netns", "add", name)
        system("ip", "link", "add", first, "netns", first, "type", "veth", "peer", "name", second, "netns", second)
        for number, name in enumerate(self.names, 1):
            inside = ("ip", "-n", name)
            system(*inside, "address", "add", f"10.77.0.{number}/24", "dev", name)
            for interface in (name, "lo"):
                system(*inside, "link", "set", interface, "up")

    def __exit__(self, *_):
        for name in self.names:
            system("ip", "netns", "delete", name, check=False)

    def cut(self):
        system("ip", "-n", self.names[1], "link", "set", self.names[1], "down")


def write(folder, name, **more):
    file = folder / f"{name}.json"
    checks = [{"that": "ranks_agree"}, {"that": "finishes"}]
    file.write_text(json.dumps({**scenario(1, repeats=1, checks=checks), "name": "hosts", **more}))
    return file


def run(file, out, environment, *options):
    return subprocess.run([str(LOCKSTEP), "run", str(file), "--out", str(out), *options], env=environment,
                          capture_output=True, text=True)


def traces(out, world_size):
    return [(out / "hosts/main/0" / f"rank{rank}.jsonl").read_bytes() for rank in range(world_size)]


def left_over(out):
    """Processes that still hold the folder of a run among their words."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(out).encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(entry.parent.name)
        except OSError:  # it ended meanwhile
            pass
    return found


def same_bits(folder, environment):
    for world_size in (2, 4):
        file = write(folder, f"local{world_size}", world_size=world_size)
        local = folder / f"of-local{world_size}"
        ended = run(file, local, environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        for rendezvous in ("static", "c10d"):
            name = f"{rendezvous}{world_size}"
            file = write(folder, name, world_size=world_size,
                         launch={"kind": "torchrun", "nodes": 2, "rendezvous": rendezvous})
            out = folder / f"of-{name}"
            ended = run(file, out, environment)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert traces(out, world_size) == traces(local, world_size), name
            print(f"{name}: two hosts, the bits of one", flush=True)


def cut_link(folder, environment, hosts):
    train = {**scenario(1)["train"], "steps": 100000}
    launch = {"kind": "torchrun", "nodes": 2, "rendezvous": "c10d", "stall_s": STALL_S}
    file = write(folder, "cut", train=train, launch=launch)
    out = folder / "of-cut"
    started = subprocess.Popen([str(LOCKSTEP), "run", str(file), "--out", str(out)], env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    trace = out / "hosts/main/0/rank1.jsonl"
    while not trace.exists() or trace.read_bytes().count(b"\n") < 20:
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    hosts.cut()
    begin = time.monotonic()
    said, errors = started.communicate(timeout=120)
    took = time.monotonic() - begin
    assert started.returncode == 1, said + errors
    assert "run hosts/main/0: hung" in said or "run hosts/main/0: failed" in said, said
    assert took < STALL_S + LATE_S, f"the verdict came after {took:.1f} s"
    assert not left_over(out), left_over(out)
    print(f"the link is cut: told after {took:.1f} s, nothing is left", flush=True)
    print(next(line for line in said.splitlines() if "why" in line), flush=True)


def main():
    torchrun = shutil.which("torchrun")
    can = shutil.which("ip") and os.geteuid() == 0 and system("unshare", "--net", "true", check=False).returncode == 0
    if torchrun is None or not can:
        print("skipped: no torchrun in PATH, or no network namespaces")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-hosts-"))
    try:
        (folder / "bin").mkdir()
        shim = folder / "bin/torchrun"
        shim.write_text(SHIM.replace("TORCHRUN", torchrun))
        shim.chmod(0o755)
        (folder / "bin/python").symlink_to(pathlib.Path(torchrun).parent / "python")
        with Hosts() as hosts:
            environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                           "LOCKSTEP_HOSTS": hosts.names[0][:-1],
                           "OMP_NUM_THREADS": "1"}  # torchrun sets it where it starts several ranks
            same_bits(folder, environment)
            cut_link(folder, environment, hosts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
