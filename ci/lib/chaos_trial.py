"""One trial of ci/chaos: a training, the fault that is planted into it, and what was seen of its end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from typing import Any, Callable

from lib.repository import ROOT

STEPS = 6
STALL_S = 3
STALL_UNDER_S = {"torchrun": 10, "mpirun": 10}  # which take some of it to begin
GONE_S = 2  # from the end of lockstep to that of its last process
MARK = "LOCKSTEP_CHAOS"
PHASES = ("data", "forward", "backward", "optimizer")
FAULTS = (
    "kill", "stop", "exit", "exit_0", "exception", "abort", "spin", "hang", "hang_in_collective", "out_of_memory",
    "disk_full", "extra", "skipped", "mismatched", "launcher_killed", "second_interrupt", "clean", "slowed",
)
BY_LAUNCHERS = ("starter_killed", "stepd_killed")
HANGS = ("spin", "hang", "hang_in_collective", "stepd_killed")
COLLECTIVES = ("extra", "skipped", "mismatched")
HARMLESS = ("clean", "slowed")
FROM_OUTSIDE = ("launcher_killed", "second_interrupt") + BY_LAUNCHERS
OWN_LAUNCHERS = ("fork", "exec")
LAUNCHERS = OWN_LAUNCHERS + ("torchrun", "mpirun", "srun")


@dataclasses.dataclass
class Trial:
    """Seed and number decide it."""

    number: int
    fault: str
    world_size: int
    rank: int
    step: int
    phase: str
    kind: str
    code: int  # of "exit"
    kilobytes: int  # that a rank may write, of "disk_full"
    delay_ms: int  # of "slowed"
    after_s: float  # from the start of lockstep, of faults from outside
    pause_s: float  # between two interrupts

    def __str__(self) -> str:
        return (f"trial {self.number}: {self.fault}, rank {self.rank} of {self.world_size}, step {self.step} in "
                f"{self.phase}, {self.kind}")


def faults_under(launchers: Sequence[str], asked: Sequence[str] | None = None) -> tuple[str, ...]:
    """Those that can be drawn; `asked` chooses among them."""
    possible: tuple[str, ...] = FAULTS
    if not set(launchers) & set(OWN_LAUNCHERS):
        possible += BY_LAUNCHERS if tuple(launchers) == ("srun",) and asked else BY_LAUNCHERS[:1]
    return tuple(fault for fault in possible if fault in (asked or possible))


def trial_of(seed: int | str, number: int, faults: Sequence[str] = FAULTS,
             launchers: Sequence[str] = OWN_LAUNCHERS) -> Trial:
    """The trial that they decide."""
    dice = random.Random(f"{seed}/{number}")
    world_size = dice.choice((2, 4, 8))
    return Trial(number=number, fault=dice.choice(faults), world_size=world_size, rank=dice.randrange(world_size),
                 step=dice.randrange(STEPS - 2), phase=dice.choice(PHASES), kind=dice.choice(launchers),
                 code=dice.choice((1, 3, 7, 42, 101, 125)), kilobytes=dice.randrange(1, 9),
                 delay_ms=dice.randrange(50, 250), after_s=dice.uniform(0.05, 1.5), pause_s=dice.uniform(0, 0.3))


def planted(trial: Trial) -> dict[str, Any] | None:
    """The fault as a scenario plants it; nothing for those that come from elsewhere."""
    place: dict[str, Any] = {"step": trial.step, "phase": trial.phase}
    own = dict(place, rank=trial.rank)
    how = {"stop": "stop", "exception": "exception", "abort": "abort", "spin": "spin", "out_of_memory": "out_of_memory"}
    if trial.fault in how:
        return dict(own, kind="breaks_down", how=how[trial.fault])
    if trial.fault in ("skipped", "mismatched"):
        return dict(place, kind="odd_collective", how=trial.fault, odd_rank=trial.rank)
    if trial.fault in FROM_OUTSIDE:
        return dict(own, kind="hang")
    return {"kill": dict(own, kind="kill"), "exit": dict(own, kind="exit", code=trial.code),
            "exit_0": dict(own, kind="exit", code=0), "hang": dict(own, kind="hang"),
            "hang_in_collective": dict(own, kind="hang_in_collective"),
            "extra": dict(own, kind="extra_collective")}.get(trial.fault)


def stall_of(trial: Trial) -> int:
    """Seconds without a sign of progress after which lockstep gives up."""
    return STALL_UNDER_S.get(trial.kind, STALL_S)


def scenario_of(trial: Trial) -> dict[str, Any]:
    """A short training of a small model, with the fault."""
    fault = planted(trial)
    watched = trial.fault in HANGS or trial.fault not in FROM_OUTSIDE
    launch: dict[str, Any] = {"kind": trial.kind, "stall_s": stall_of(trial) if watched else 60}
    if trial.fault == "slowed" and trial.kind in OWN_LAUNCHERS:
        launch["step_delay_ms"] = [0] * trial.rank + [trial.delay_ms]
    return {
        "name": "chaos", "description": "A training that something happens to.", "world_size": trial.world_size,
        "launch": launch,
        "train": {
            "model": {"kind": "mlp", "hidden": [16]},
            "data": {"kind": "digits", "path": str(ROOT / "scenarios/data/digits.csv.gz"), "size": 96},
            "batch": {"global": 24}, "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}, "steps": STEPS,
            "faults": [fault] if fault else [],
        },
        "checks": [{"that": "ledger"}, {"that": "finishes"}],
    }


def own_worker(trial: Trial, folder: pathlib.Path, worker: pathlib.Path) -> pathlib.Path | None:
    """A worker of which one rank may only write so much to a file, or is slow. Nothing where the usual one will do."""
    limits = {"disk_full": f"ulimit -f {trial.kilobytes}", "slowed": f"export LOCKSTEP_STEP_DELAY_MS={trial.delay_ms}"}
    if trial.fault not in limits or (trial.fault == "slowed" and trial.kind in OWN_LAUNCHERS):
        return None
    script = folder / "worker.sh"
    is_rank = f'[ "${{RANK:-${{SLURM_PROCID:-$OMPI_COMM_WORLD_RANK}}}}" = {trial.rank} ]'
    script.write_text(f'#!/bin/bash\n{is_rank} && {limits[trial.fault]}\nexec "{worker}" "$@"\n')
    script.chmod(0o755)
    return script


def processes_with(mark: str) -> tuple[list[int], set[int]]:
    """Those that have it in their environment, and those whose program shows none: for a moment, each process that
    starts another program (execve)."""
    found, bare = [], set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            (entry / "exe").readlink()
        except OSError:  # gone, a zombie, the kernel's, or of another user
            continue
        if not environment:
            bare.add(int(entry.name))
        elif f"{MARK}={mark}".encode() in environment.split(b"\0"):
            found.append(int(entry.name))
    return found, bare


def children_of(pid: int) -> list[int]:
    """Its own, not their children."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # gone
        return []


def parent_of(pid: int) -> int:
    """The process that started it."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[1])


def step_daemons(mark: str) -> list[int]:
    """Of Slurm, above the ranks of a trial."""
    parents = {parent_of(pid) for pid in processes_with(mark)[0]}
    return [pid for pid in parents if "slurmstepd" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]


def kill_when_there(process: subprocess.Popen[bytes], find: Callable[[], list[int]]) -> None:
    """Kills what `find` finds, once it finds something."""
    while process.poll() is None:
        try:
            found = find()
        except OSError:  # one was gone in between
            continue
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        if found:
            return
        time.sleep(0.01)


def interfere(trial: Trial, process: subprocess.Popen[bytes], mark: str) -> float | None:
    """Faults from outside; when the last of them happened, or nothing if lockstep had ended before."""
    time.sleep(trial.after_s)
    if trial.fault == "stepd_killed":
        kill_when_there(process, lambda: step_daemons(mark))
        return None  # the rank's last sign is what counts
    if trial.fault == "starter_killed":
        kill_when_there(process, lambda: children_of(process.pid))
        return time.time()
    if trial.fault == "launcher_killed":
        process.send_signal(signal.SIGKILL)
        return time.time()
    process.send_signal(signal.SIGINT)
    time.sleep(trial.pause_s)
    process.send_signal(signal.SIGINT)
    return time.time()


@dataclasses.dataclass
class Seen:
    """How a trial ended."""

    code: int
    result: dict[str, Any]  # of --json; empty where lockstep wrote none
    latency_s: float  # from the last sign of the faulty rank, or from the last signal, to lockstep's end
    orphans: list[int]
    wall_s: float
    crowd: float = 1  # as crowd_here says it, before the trial began


def last_sign_of(trial: Trial, out: pathlib.Path, begin: float) -> float:
    """When the faulty rank wrote its trace for the last time: the fault is not older."""
    trace = out / f"chaos/main/0/rank{trial.rank}.jsonl"
    return trace.stat().st_mtime if trace.exists() else begin


def crowd_here() -> float:
    """How many processes want each processor of this machine, 1 at least: everything takes so many times as long."""
    running = pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[0]
    return max(1, (int(running) - 1) / len(os.sched_getaffinity(0)))  # less this one


def left_after(mark: str, bare_before: set[int], deadline: float) -> list[int]:
    """The processes of a trial that are there at the deadline (of time.time); none where all end before it. One that
    shows no environment may be about to start another program: it is looked at again."""
    while True:
        found, bare = processes_with(mark)
        if not found and bare <= bare_before or time.time() >= deadline:
            return found
        time.sleep(0.02)


def run(trial: Trial, lockstep: pathlib.Path, worker: pathlib.Path, folder: pathlib.Path) -> Seen:
    """Plants the fault, waits for the verdict, and ends what is left."""
    scenario, out, result = folder / "chaos.json", folder / "runs", folder / "result.json"
    scenario.write_text(json.dumps(scenario_of(trial)))
    command = [str(lockstep), "run", str(scenario), "--out", str(out), "--json", str(result)]
    if own := own_worker(trial, folder, worker):
        command += ["--worker", str(own)]
    mark = uuid.uuid4().hex
    crowd = crowd_here()
    bare_before = processes_with(mark)[1]
    begin = time.time()
    with open(folder / "said", "w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=dict(os.environ, **{MARK: mark}),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        fault_at = interfere(trial, process, mark) if trial.fault in FROM_OUTSIDE else None
        try:
            code = process.wait(timeout=60 * crowd)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    end = time.time()
    orphans = left_after(mark, bare_before, end + GONE_S * crowd)
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        judged = json.loads(result.read_text())
    except (OSError, ValueError):
        judged = {}
    return Seen(code=code, result=judged, latency_s=end - (fault_at or last_sign_of(trial, out, begin)),
                orphans=orphans, wall_s=end - begin, crowd=crowd)
