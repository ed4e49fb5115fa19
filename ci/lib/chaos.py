"""Plants faults into real trainings and checks what lockstep says of them:

    ci/chaos [--trials N] [--seed S] [--only K] [--fault NAME…] [--launcher KIND…] [--lockstep FILE]

Each trial draws a fault, a phase, a step, a rank, a world size (2, 4, 8) and a launcher (fork, exec). Others must be in
PATH; srun takes the Slurm that SLURM_CONF names (ci/slurm). Under these, the launcher's own process is killed, too
(starter_killed); under srun, where --fault asks for it, the process that watches over a node's ranks, while one hangs
(stepd_killed). Seed and number decide a trial: `ci/chaos --seed S --only K` repeats it. Checked are the exit code, the
rank to blame, the time from the fault to the verdict, processes left behind, and that no fault passes. Where N
processes want each processor, N times as long is soon enough. Without --seed, the commit chooses. Exit codes: 0 all
hold; 1 some do not; 2 usage.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import shutil
import signal
import tempfile
from collections.abc import Sequence
from typing import Any

from lib import markdown
from lib.chaos_trial import (
    BY_LAUNCHERS,
    COLLECTIVES,
    FAULTS,
    HANGS,
    HARMLESS,
    LAUNCHERS,
    OWN_LAUNCHERS,
    Seen,
    Trial,
    faults_under,
    run,
    stall_of,
    trial_of,
)
from lib.repository import ROOT, commit_seed

STOP_S = 2  # launch/local_run.h: kStopGrace
SLACK_S = 5  # from the fault, or from the end of a timeout, to the verdict
KINDS = ("culprit", "late", "orphans", "false passes", "false alarms")


def expected_words(trial: Trial) -> list[str]:
    """What the reason says, beside the rank."""
    place = f"at step {trial.step} in {trial.phase}"
    return {"kill": ["SIGKILL", place], "stop": ["stopped by a signal", place],
            "exit": [f"exited with code {trial.code}", place], "exit_0": ["exited with code 0", place],
            "exception": ["exited with code 1", place], "abort": ["SIGABRT", place],
            "out_of_memory": ["exited with code 4"], "disk_full": ["exited with code 4"],
            "spin": ["made no progress", place], "stepd_killed": ["made no progress", place],
            "hang": ["made no progress", place], "hang_in_collective": ["made no progress"],
            "starter_killed": ["the launcher", "was killed by SIGKILL"]}.get(trial.fault, [])


def wrong_culprit(trial: Trial, run_report: dict[str, Any]) -> list[str]:
    """What is wrong about the rank to blame; nothing where it is right."""
    culprit = run_report["culprit_rank"]
    if trial.fault in COLLECTIVES:
        if "control.rank_branch" not in [cause["id"] for cause in run_report["causes"]]:
            return [f"the cause is {run_report['cause']}"]
        if trial.world_size == 2:  # of two ranks, either may be the odd one
            return []
    if trial.fault == "hang_in_collective" and culprit is None:
        return []  # all ranks are in one collective
    guilty = None if trial.fault == "starter_killed" else trial.rank
    complaints = [] if culprit == guilty else [f"rank {culprit} is blamed"]
    missing = [words for words in expected_words(trial) if words not in run_report["why"]]
    return complaints + [f"the reason lacks '{words}': {run_report['why']}" for words in missing]


def limit_of(trial: Trial) -> int:
    """Seconds that the verdict may take where each process has a processor."""
    if trial.fault == "second_interrupt":
        return 1
    timeout = stall_of(trial) if trial.fault in HANGS + COLLECTIVES else STOP_S if trial.fault == "stop" else 0
    return timeout + SLACK_S


def complaints_about(trial: Trial, seen: Seen) -> dict[str, list[str]]:
    """By kind of promise."""
    wrong: dict[str, list[str]] = collections.defaultdict(list)
    if seen.orphans:
        wrong["orphans"].append(f"{len(seen.orphans)} processes are left")
    if trial.fault in HARMLESS:
        if seen.code != 0:
            wrong["false alarms"].append(f"exit code {seen.code}")
        return wrong
    if seen.code == 0 or seen.result.get("status") == "agree":
        wrong["false passes"].append("it passes")
        return wrong
    if trial.fault == "launcher_killed":
        return wrong
    if seen.latency_s > limit_of(trial) * seen.crowd:
        wrong["late"].append(f"{seen.latency_s:.1f} s after the fault")
    code = {"second_interrupt": 130, "out_of_memory": 4, "disk_full": 4}.get(trial.fault, 1)
    # Before it began; a shell says 130.
    ended_by_interrupt = trial.fault == "second_interrupt" and seen.code == -signal.SIGINT
    if seen.code != code and not ended_by_interrupt:
        wrong["culprit"].append(f"exit code {seen.code}, not {code}")
    elif trial.fault != "second_interrupt":
        runs = seen.result.get("failed_runs", [])
        wrong["culprit"] += wrong_culprit(trial, runs[0]) if len(runs) == 1 else [f"{len(runs)} failed runs"]
    return wrong


@dataclasses.dataclass
class Judged:
    """A trial, how it ended, and the promises that it broke."""

    trial: Trial
    seen: Seen
    wrong: dict[str, list[str]]


def try_one(trial: Trial, lockstep: pathlib.Path, worker: pathlib.Path, keep: bool) -> Judged:
    """Runs a trial; of one that fails, the folder is kept where it is asked for."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    seen = run(trial, lockstep, worker, folder)
    wrong = {kind: texts for kind, texts in complaints_about(trial, seen).items() if texts}
    if wrong and keep:
        print(f"  everything of it is in {folder}")
    else:
        shutil.rmtree(folder)
    return Judged(trial, seen, wrong)


def report(judged: Sequence[Judged]) -> str:
    """A table by fault: how many trials, what was wrong, and the longest time to a verdict."""
    rows = []
    for fault in (*FAULTS, *BY_LAUNCHERS, "all"):
        of_fault = [one for one in judged if fault in (one.trial.fault, "all")]
        if not of_fault:
            continue
        counts = [sum(kind in one.wrong for one in of_fault) for kind in KINDS]
        timed = [one.seen.latency_s for one in of_fault
                 if one.trial.fault not in HARMLESS and one.trial.fault != "launcher_killed"]
        rows.append((fault, len(of_fault), *counts, f"{max(timed):.1f} s" if timed else ""))
    kinds = ("wrong culprit" if kind == "culprit" else kind for kind in KINDS)
    return markdown.table(("fault", "trials", *kinds, "slowest verdict"), rows)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--trials", type=int, default=300)
    made.add_argument("--seed", default=None)
    made.add_argument("--only", type=int, metavar="K",
                      help="the trial of this number; keeps what it leaves if it fails")
    made.add_argument("--fault", nargs="+", choices=FAULTS + BY_LAUNCHERS, metavar="NAME",
                      help=f"draw from these alone: {', '.join(FAULTS + BY_LAUNCHERS)}")
    made.add_argument("--launcher", nargs="+", choices=LAUNCHERS, default=OWN_LAUNCHERS, metavar="KIND",
                      help=f"draw from these: {', '.join(LAUNCHERS)}. Default: {', '.join(OWN_LAUNCHERS)}")
    made.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/bin/lockstep")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the trials that are asked for; the exit code."""
    command_line = parser()
    options = command_line.parse_args(arguments)
    lockstep = options.lockstep.resolve()
    if options.trials < 1 or not os.access(options.lockstep, os.X_OK):
        command_line.error("nothing to try: build lockstep first (ci/build), and try at least once")
    seed = options.seed if options.seed is not None else commit_seed() or "1"
    numbers = range(options.trials) if options.only is None else [options.only]
    print(f"ci/chaos: {len(numbers)} trials with --seed {seed}", flush=True)
    drawn = faults_under(options.launcher, options.fault)
    if not drawn:
        command_line.error(
            "starter_killed needs launchers that are programs, as --launcher torchrun does; stepd_killed needs srun")
    again = f"ci/chaos --seed {seed}" + (f" --fault {' '.join(drawn)}" if options.fault else "")
    again += f" --launcher {' '.join(options.launcher)}" if tuple(options.launcher) != OWN_LAUNCHERS else ""
    judged = []
    for number in numbers:
        trial = trial_of(seed, number, drawn, tuple(options.launcher))
        judged.append(try_one(trial, lockstep, lockstep.parent / "lockstep-worker", options.only is not None))
        for kind, texts in judged[-1].wrong.items():
            print(f"{trial}: {kind}: {'; '.join(texts)}\n  again: {again} --only {number}", flush=True)
    print(report(judged))
    return 1 if any(one.wrong for one in judged) else 0
