"""Which tests of a build ci/test runs: those of ctest that the part of a commit takes, as an argument of ctest's -I.

A part such as 2/6 (LOCKSTEP_TEST_PART) takes every third test of the suites below, and all tests of all other
suites. The six parts together take all. What has the label `full` runs where the part is 1/1, as in ci/full.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any

from lib.repository import NothingJudged

#: Suites whose tests take long and are of one kind.
LONG = ("Launchers/EachLauncher", "Launchers", "Models/ReductionOrders", "ResumeEndToEnd", "SnapshotsEndToEnd",
        "programs")
PARTS = 3  # that a long suite is divided into
FULL = "full"
PART = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


def part_of(text: str) -> tuple[int, int]:
    """Number and count of a part."""
    found = PART.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise NothingJudged(f"LOCKSTEP_TEST_PART: expected a part such as 2/6, found '{text}'")
    return number, count


def labels_of(test: dict[str, Any]) -> list[str]:
    """The labels of a test, as ctest tells of them."""
    return next((entry["value"] for entry in test["properties"] if entry["name"] == "LABELS"), [])


def chosen(tests: Sequence[dict[str, Any]], part: str) -> list[int]:
    """The numbers, from 1, of the tests that a part takes."""
    number, count = part_of(part)
    seen: dict[str, int] = {}
    taken = []
    for position, test in enumerate(tests, 1):
        if count > 1 and FULL in labels_of(test):
            continue
        suite = test["name"].split(".")[0]
        index = seen[suite] = seen.get(suite, -1) + 1
        parts = min(PARTS, count) if suite in LONG else 1
        if index % parts == (number - 1) % parts:
            taken.append(position)
    return taken


def main(arguments: Sequence[str]) -> int:
    """Takes a build folder and a part."""
    folder, part = arguments
    command = ["ctest", "--test-dir", folder, "--show-only=json-v1"]
    tests = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["tests"]
    taken = chosen(tests, part)
    if not taken:
        raise NothingJudged(f"{folder} has no tests")
    print(",".join(["0,0,0", *map(str, taken)]))
    return 0
