"""Trains one scenario under every launcher that is installed, and compares all traces byte for byte.

ci/launchers starts a Slurm and runs this: launchers FOLDER [--write]. The other traces are those of ranks that lockstep
starts itself. The result is the table of docs/launchers.md. This fails, and writes nothing, where a launcher is missing
or a byte differs.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib import markdown
from lib.repository import replace_file

DOCUMENT = pathlib.Path("docs/launchers.md")
HEADING = "## Tested\n\n"
WORLD_SIZES = (2, 4)
STEPS = 20
NODES = {"nodes": 2, "environment": {"MASTER_ADDR": "127.0.0.1"}}
TORCHRUN = {"kind": "torchrun", "nodes": 2}
ELASTIC = {**TORCHRUN, "rendezvous": "c10d", "options": ["--nnodes=1:2", "--max-restarts=1"]}


class Differs(Exception):
    """A launcher that gave no trace, or another one."""


@dataclass
class Way:
    """One way to start ranks: as a scenario's `launch`, or by a command that starts them from a run.json."""

    name: str
    version: str
    launch: dict[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()


def said(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints. Raises CalledProcessError."""
    return subprocess.run(command, capture_output=True, text=True, check=True,
                          env={**os.environ, **(environment or {})}).stdout


def package(name: str) -> str:
    """A Python package and its version."""
    code = f"import importlib.metadata as m; print('{name}', m.version('{name}').split('+')[0])"
    return said("python", "-c", code).strip()


def ways() -> list[Way]:
    """All that are known; the last ones are started by hand."""
    torch, accelerate = package("torch"), package("accelerate")
    found = re.search(r"[\d.]+", said("mpirun", "--version"))
    mpirun = f"Open MPI {found[0] if found else ''}"
    slurm = "Slurm " + said("srun", "--version").split()[1]
    return [
        Way("torchrun --standalone", torch, {"kind": "torchrun"}),
        Way("torchrun, two agents, static", torch, TORCHRUN),
        Way("torchrun, two agents, c10d", torch, {**TORCHRUN, "rendezvous": "c10d"}),
        Way("torchrun, two agents, c10d, elastic: --nnodes=1:2 --max-restarts=1", torch, ELASTIC),
        Way("torch.distributed.launch --use_env", torch, {"kind": "torch.distributed.launch"}),
        Way("accelerate launch --multi_gpu", accelerate, {"kind": "accelerate"}),
        Way("mpirun", mpirun, {"kind": "mpirun"}),
        Way("srun, one node", slurm, {"kind": "srun"}),
        Way("srun, two nodes", slurm, {"kind": "srun", **NODES}),
        Way("srun torchrun, two nodes", f"{slurm}, {torch}", {"kind": "srun-torchrun", **NODES}),
        Way("slurm: a job for each run, two nodes", slurm, {"kind": "slurm", **NODES}),
        Way("by hand: four variables", "", {"kind": "manual"}),
        Way("by hand: init_method=tcp://", "", {"kind": "manual", "rendezvous": "tcp"}),
        Way("by hand: init_method=file://", "", {"kind": "manual", "rendezvous": "file"}),
        Way("torch.multiprocessing.spawn", torch, command=("python", "docs/examples/spawn.py")),
    ]


def scenario_of(launches: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One training in all ways. `launches`: of each variant, by the name that its world size follows."""
    variants = {}
    for world_size in WORLD_SIZES:
        for name, launch in launches.items():
            environment = {**launch.get("environment", {}), "OMP_NUM_THREADS": "1"}
            variants[f"{name}-{world_size}"] = {"world_size": world_size,
                                                "launch": {**launch, "environment": environment}}
    return {
        "name": "launchers",
        "description": "One training, whoever starts its ranks.",
        "train": {
            "model": {"kind": "lenet"},
            "data": {"kind": "digits", "path": str(pathlib.Path("scenarios/data/digits.csv.gz").resolve())},
            "batch": {"global": 24},
            "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9},
            "steps": STEPS,
        },
        "variants": variants,
        "checks": [{"that": "equal", "variants": [name for name in variants if name.endswith(f"-{world_size}")]}
                   for world_size in WORLD_SIZES],
    }


def train(folder: pathlib.Path, all_ways: Sequence[Way]) -> None:
    """Runs the scenario, and then the commands with the run.json of a run of lockstep's own."""
    launches = {"own": {}, **{str(i): way.launch for i, way in enumerate(all_ways) if not way.command}}
    scenario = folder / "launchers.json"
    scenario.write_text(json.dumps(scenario_of(launches)), encoding="utf-8")
    done = subprocess.run(["build/bin/lockstep", "run", str(scenario), "--out", str(folder / "out")],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Differs(done.stdout + done.stderr)
    for i, way in enumerate(all_ways):
        for world_size in WORLD_SIZES if way.command else ():
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            spec, traces = (folder / "out/launchers" / f"{who}-{world_size}" / "0" for who in ("own", i))
            traces.mkdir(parents=True)
            said(*way.command, str(world_size), "build/bin/lockstep-worker", "--spec", str(spec / "run.json"), "--out",
                 str(traces), environment={"MASTER_PORT": port, "OMP_NUM_THREADS": "1"})


def comparable(trace: str) -> list[str]:
    """The lines of a trace, but the variant's name, and the hashes that cover it."""
    lines = trace.splitlines()
    header = json.loads(lines[0])
    del header["variant"], header["check"]
    return [json.dumps(header, sort_keys=True), *lines[1:-1]]


def bytes_compared(out: pathlib.Path, i: int, way: Way) -> int:
    """How many bytes of lockstep's own traces a way gave, too. Raises Differs."""
    count = 0
    for world_size in WORLD_SIZES:
        for rank in range(world_size):
            own, other = (comparable((out / f"{who}-{world_size}/0/rank{rank}.jsonl").read_text(encoding="utf-8"))
                          for who in ("own", i))
            if own != other or len(own) <= STEPS:
                lines = [number for number, (a, b) in enumerate(zip(own, other)) if a != b][:3]
                raise Differs(f"{way.name}, W = {world_size}: rank {rank} has other bytes, or none: {len(own)} and "
                              f"{len(other)} lines, {lines}")
            count += sum(map(len, own[1:]))
    return count


def with_table(text: str, table: str) -> str:
    """The page with another table."""
    start = text.index(HEADING) + len(HEADING)
    end = text.index("\n\n", text.index("| bits equal |", start)) + 1
    return text[:start] + table + text[end:]


def main(arguments: Sequence[str]) -> int:
    """Compares all, and prints or writes the table."""
    folder, write = pathlib.Path(arguments[0]), "--write" in arguments[1:]
    all_ways = ways()
    try:
        train(folder, all_ways)
        count = sum(bytes_compared(folder / "out/launchers", i, way) for i, way in enumerate(all_ways))
    except Differs as why:
        raise SystemExit(f"ci/launchers: {why}") from None
    sizes = ", ".join(map(str, WORLD_SIZES))
    table = markdown.table(("launcher", "version", "W", "bits equal"),
                           ((way.name, way.version, sizes, "yes") for way in all_ways))
    page = f"{STEPS} steps of lenet, {count >> 10} KiB of traces compared, by `ci/launchers --write`:\n\n{table}\n"
    if write:
        replace_file(DOCUMENT, with_table(DOCUMENT.read_text(encoding="utf-8"), page))
    else:
        print(page)
    return 0
