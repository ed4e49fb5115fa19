"""Each promise that ci/chaos checks is broken once, by a lockstep that is a shell script, and ci/chaos must say so."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
from collections.abc import Sequence
from typing import Any, Callable

from lib.chaos import complaints_about
from lib.chaos_trial import Seen, Trial, faults_under, left_after, processes_with, trial_of
from lib.repository import ROOT

SEED = 1


def number_of(fault: str, accept: Callable[[Trial], bool] = lambda trial: True) -> Trial:
    """The first trial of this fault."""
    trials = (trial_of(SEED, number) for number in range(10000))
    return next(trial for trial in trials if trial.fault == fault and accept(trial))


def good_report(trial: Trial) -> dict[str, Any]:
    """What an honest lockstep says of a rank that was killed."""
    return {"status": "divergence", "failed_runs": [{
        "culprit_rank": trial.rank, "cause": "proc.rank_lost", "causes": [{"id": "proc.rank_lost"}],
        "why": f"rank {trial.rank} was killed by SIGKILL at step {trial.step} in {trial.phase}"}]}


class Chaos(unittest.TestCase):
    def tried(self, trial: Trial, script: str, report: dict[str, Any] | None = None,
              more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """ci/chaos about a lockstep that is a script; $result is the file of --json."""
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "lockstep"
            fake.write_text(f"#!/bin/sh\nresult=$6\ncat >$result <<'END'\n{json.dumps(report or {})}\nEND\n{script}\n")
            fake.chmod(0o755)
            return subprocess.run([str(ROOT / "ci/chaos"), "--seed", str(SEED), "--only", str(trial.number),
                                   "--lockstep", str(fake), *more], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, TMPDIR=folder))

    def expect(self, outcome: subprocess.CompletedProcess[str], promise: str | None) -> None:
        self.assertEqual(outcome.returncode, 1 if promise else 0, outcome.stdout + outcome.stderr)
        if promise:
            self.assertIn(f": {promise}: ", outcome.stdout)
            self.assertRegex(outcome.stdout, f"again: ci/chaos --seed {SEED} .*--only ")

    def test_an_honest_lockstep_passes(self) -> None:
        killed = number_of("kill")
        self.expect(self.tried(killed, "exit 1", good_report(killed)), None)
        self.expect(self.tried(number_of("clean"), "exit 0", {"status": "agree"}), None)

    def test_a_fault_that_passes(self) -> None:
        for fault in ("kill", "spin", "out_of_memory", "skipped", "launcher_killed", "second_interrupt"):
            with self.subTest(fault):
                self.expect(self.tried(number_of(fault, lambda trial: trial.after_s > 0.2), "exit 0",
                                       {"status": "agree"}), "false passes")

    def test_a_clean_or_slow_training_that_fails(self) -> None:
        for fault in ("clean", "slowed"):
            with self.subTest(fault):
                self.expect(self.tried(number_of(fault), "exit 1"), "false alarms")

    def test_another_rank_another_place_or_another_code_is_blamed(self) -> None:
        killed = number_of("kill")
        for key, value in (("culprit_rank", killed.rank + 1), ("culprit_rank", None), ("why", "rank 0 was killed")):
            wrong = good_report(killed)
            wrong["failed_runs"][0][key] = value
            with self.subTest(f"{key} {value}"):
                self.expect(self.tried(killed, "exit 1", wrong), "culprit")
        self.expect(self.tried(killed, "exit 4", good_report(killed)), "culprit")
        self.expect(self.tried(number_of("extra"), "exit 1", good_report(killed)), "culprit")

    def test_a_launcher_that_is_killed(self) -> None:
        numbers = (trial_of(SEED, number, ("starter_killed",), ("mpirun",)) for number in range(100))
        trial = next(trial for trial in numbers if trial.after_s > 0.2)
        waiting = "sleep 20 & wait $!; [ $? = 137 ] || exit 9; exit"
        report: dict[str, Any] = {"status": "divergence", "failed_runs": [{
            "culprit_rank": None, "cause": "", "causes": [], "why": "the launcher (mpirun) was killed by SIGKILL"}]}
        more = ("--launcher", "mpirun", "--fault", "starter_killed")
        self.expect(self.tried(trial, f"{waiting} 1", report, more), None)
        self.expect(self.tried(trial, f"{waiting} 0", report, more), "false passes")
        report["failed_runs"][0]["culprit_rank"] = 0
        self.expect(self.tried(trial, f"{waiting} 1", report, more), "culprit")

    def test_starters_are_those_of_other_launchers(self) -> None:
        seeds = [trial_of(SEED, number, faults_under(("srun",)), ("srun",)) for number in range(200)]
        self.assertIn("starter_killed", {trial.fault for trial in seeds})
        self.assertEqual({trial.kind for trial in seeds}, {"srun"})
        self.assertNotIn("starter_killed", faults_under(("fork", "srun")))
        refused = subprocess.run([str(ROOT / "ci/chaos"), "--fault", "starter_killed", "--lockstep", "/bin/true"],
                                 capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)

    def test_a_process_that_is_left(self) -> None:
        killed = number_of("kill")
        self.expect(self.tried(killed, "setsid sleep 100 >/dev/null 2>&1 &\nexit 1", good_report(killed)), "orphans")

    def test_a_process_without_an_environment_is_looked_at_again(self) -> None:
        before = processes_with("nobody")[1]
        with subprocess.Popen(["sleep", "0.5"], env={}) as starting:
            self.assertEqual(left_after("nobody", before, time.time() + 30), [])
            self.assertIsNotNone(starting.poll())
        with subprocess.Popen(["sleep", "30"], env={}) as always:
            self.assertEqual(left_after("nobody", before | {always.pid}, time.time() + 30), [])
            self.assertEqual(left_after("nobody", before, time.time() + 0.1), [])
            self.assertIsNone(always.poll())
            always.kill()

    def test_a_late_verdict(self) -> None:
        killed = number_of("kill")
        for latency_s, crowd, promises in ((4.9, 1, set()), (5.1, 1, {"late"}), (5.1, 10, set()), (51, 10, {"late"})):
            seen = Seen(code=1, result=good_report(killed), latency_s=latency_s, orphans=[], wall_s=60, crowd=crowd)
            wrong = complaints_about(killed, seen)
            with self.subTest(f"{latency_s} s, {crowd} processes a processor"):
                self.assertEqual({kind for kind, texts in wrong.items() if texts}, promises)

    def test_one_line_repeats_a_trial(self) -> None:
        self.assertEqual(trial_of(SEED, 7), trial_of(str(SEED), 7))
        self.assertNotEqual(trial_of(SEED, 7), trial_of(2, 7))
