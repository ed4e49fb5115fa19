"""The parts of the tests are disjoint where a suite is divided, and together they are all tests."""

from __future__ import annotations

import unittest
from typing import Any

from lib.repository import NothingJudged
from lib.selection import chosen


def test_named(name: str, *labels: str) -> dict[str, Any]:
    """A test as ctest tells of it."""
    return {"name": name, "properties": [{"name": "LABELS", "value": list(labels)}] if labels else []}


class Selection(unittest.TestCase):
    tests = [test_named(f"{suite}.{index}") for suite in ("ResumeEndToEnd", "Golden", "programs") for index in range(7)]
    tests += [test_named("launch.executed", "unit", "full"), test_named("launch.0", "unit")]

    def test_six_parts_are_all_but_what_only_full_runs(self) -> None:
        parts = [chosen(self.tests, f"{number}/6") for number in range(1, 7)]
        self.assertEqual({number for part in parts for number in part}, set(range(1, 24)) - {22})

    def test_a_divided_suite_runs_in_part_and_every_other_one_whole(self) -> None:
        taken = [self.tests[number - 1]["name"] for number in chosen(self.tests, "2/6")]
        resumes = [name for name in taken if name.startswith("Resume")]
        self.assertEqual(resumes, ["ResumeEndToEnd.1", "ResumeEndToEnd.4"])
        self.assertEqual(sum(name.startswith("Golden") for name in taken), 7)
        self.assertEqual([name for name in taken if name.startswith("programs")], [f"programs.{i}" for i in (1, 4)])

    def test_one_part_is_all(self) -> None:
        self.assertEqual(chosen(self.tests, "1/1"), list(range(1, 24)))
        halves = chosen(self.tests, "1/2") + chosen(self.tests, "2/2")
        self.assertEqual(set(halves), set(range(1, 24)) - {22})

    def test_a_part_that_is_misread_takes_nothing(self) -> None:
        for wrong in ("", "0/6", "7/6", "1", "2/4 ", "-1/4", "a/b"):
            with self.subTest(wrong), self.assertRaises(NothingJudged):
                chosen(self.tests, wrong)


if __name__ == "__main__":
    unittest.main()
