"""ci/verdicts is green where only wording differs, and red where a value does or is absent."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from typing import Any

from lib import repository, verdicts

RESULT: dict[str, Any] = {
    "status": "agree",
    "wall_s": 1.5,
    "checks": [{"name": "laws", "holds": True, "why": "each law holds"}, {"name": "golden", "digests": ["a", "b"]}],
}


def values(**changed: Any) -> dict[str, Any]:
    return verdicts.values_of({"gate.mlp": {**RESULT, **changed}})


class Compared(unittest.TestCase):
    def test_equal_results_are_equal_whenever_they_were_made(self) -> None:
        self.assertEqual(verdicts.compared(values(), values(wall_s=9)), verdicts.Comparison([], 0))

    def test_another_order_of_checks_is_no_difference(self) -> None:
        self.assertEqual(verdicts.compared(values(), values(checks=RESULT["checks"][::-1])).different, [])

    def test_wording_alone_is_counted(self) -> None:
        checks = [{**RESULT["checks"][0], "why": "all laws hold"}, RESULT["checks"][1]]
        self.assertEqual(verdicts.compared(values(), values(checks=checks)), verdicts.Comparison([], 1))

    def test_a_changed_value_differs(self) -> None:
        checks = [{**RESULT["checks"][0], "holds": False}, RESULT["checks"][1]]
        self.assertEqual(verdicts.compared(values(), values(checks=checks)).different,
                         ["gate.mlp: checks[laws].holds\n  before true\n  after  false"])

    def test_an_absent_scenario_differs(self) -> None:
        both = verdicts.values_of({"gate.mlp": RESULT, "gate.cnn": {"status": "agree"}})
        self.assertEqual(verdicts.compared(both, values()).different,
                         ['gate.cnn: status\n  before "agree"\n  after  absent'])
        self.assertEqual(verdicts.of_scenarios(both, ["gate.cnn"]), {"gate.cnn: status": "agree"})

    def test_a_relation_of_two_runs_is_a_value(self) -> None:
        self.assertTrue(verdicts.is_wording("checks[laws].why"))
        self.assertTrue(verdicts.is_wording("checks[laws].evidence[0].rank"))
        self.assertFalse(verdicts.is_wording("runs[0].relation"))


class Command(unittest.TestCase):
    def run_with(self, script: str, *arguments: str) -> tuple[int, str]:
        """ci/verdicts with a lockstep that is a script; $4 is the file of --json."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said, \
                contextlib.redirect_stderr(said):
            lockstep = pathlib.Path(folder, "lockstep")
            lockstep.write_text(f"#!/bin/sh\n{script}\n")
            lockstep.chmod(0o755)
            os.environ["LOCKSTEP"] = str(lockstep)
            self.addCleanup(os.environ.pop, "LOCKSTEP", None)
            return repository.exit_code("verdicts", lambda: verdicts.main(arguments)), said.getvalue()

    def test_exit_codes(self) -> None:
        scenario = "scenarios/gate/" + next((repository.ROOT / "scenarios/gate").glob("*.json*")).name
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder, "before.json"))
            agree, diverge = (f'echo \'{{"status": "{status}"}}\' >"$4"; exit {code}'
                              for status, code in (("agree", 0), ("diverge", 1)))
            self.assertEqual(self.run_with(agree, "--against", file, scenario)[0], 2)  # nothing was written yet
            self.assertEqual(self.run_with(agree, file, scenario)[0], 0)
            self.assertEqual(self.run_with(agree, "--against", file, scenario)[0], 0)
            code, said = self.run_with(diverge, "--against", file, scenario)
            self.assertEqual(code, 1)
            self.assertIn("1 values before, 1 after: 1 differ, 0 in wording only", said)
            self.assertEqual(self.run_with("echo broken >&2; exit 4", file, scenario),
                             (2, f"ci/verdicts: {scenario} gave no result:\nbroken\n"))
            self.assertEqual(self.run_with(agree, file, "scenarios/none.json")[0], 2)
