"""The thirds of the long suites are disjoint, and together they are all tests."""

from __future__ import annotations

import unittest
from typing import Any

from lib.repository import NothingJudged
from lib.selection import chosen, third_of


def test_named(name: str, *labels: str) -> dict[str, Any]:
    """A test as ctest tells of it."""
    return {"name": name, "properties": [{"name": "LABELS", "value": list(labels)}] if labels else []}


class Selection(unittest.TestCase):
    tests = [test_named(f"{suite}.{index}") for suite in ("ResumeEndToEnd", "Golden", "programs") for index in range(7)]
    tests += [test_named("launch.executed", "unit", "full"), test_named("launch.0", "unit")]

    def names(self, third: int | None) -> list[str]:
        return [self.tests[number - 1]["name"] for number in chosen(self.tests, third)]

    def test_three_thirds_are_all_but_what_only_full_runs(self) -> None:
        self.assertEqual({name for third in range(3) for name in self.names(third)},
                         {test["name"] for test in self.tests} - {"launch.executed"})
        self.assertEqual(len(self.names(None)), len(self.tests))

    def test_a_long_suite_runs_in_part_and_every_other_one_whole(self) -> None:
        taken = self.names(1)
        resumes = [name for name in taken if name.startswith("Resume")]
        self.assertEqual(resumes, ["ResumeEndToEnd.1", "ResumeEndToEnd.4"])
        self.assertEqual(sum(name.startswith("Golden") for name in taken), 7)
        self.assertEqual([name for name in taken if name.startswith("programs")], ["programs.1", "programs.4"])

    def test_each_third_meets_each_part_of_the_cases(self) -> None:
        met = {(seed % 6, third_of(f"{seed % 6 + 1}/6", seed)) for seed in range(18)}
        self.assertEqual(len(met), 18)

    def test_one_part_of_one_is_all(self) -> None:
        self.assertIsNone(third_of("1/1", 5))

    def test_a_part_that_is_misread_takes_nothing(self) -> None:
        for wrong in ("", "0/6", "7/6", "1", "2/4 ", "-1/4", "a/b"):
            with self.subTest(wrong), self.assertRaises(NothingJudged):
                third_of(wrong, 0)


if __name__ == "__main__":
    unittest.main()
