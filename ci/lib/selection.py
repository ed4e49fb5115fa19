"""Which tests of a build ci/test runs: those of ctest that a commit takes, as an argument of ctest's -I.

A commit takes a third of each long suite, and all tests of all other suites. Some tests divide a list of cases again,
by LOCKSTEP_TEST_PART. The number of the commit chooses both, and neither follows from the other: each third meets each
part. What has the label `full` runs where LOCKSTEP_TEST_PART is 1/1, as in ci/full; so does everything else.
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


def third_of(part: str, seed: int) -> int | None:
    """Which third of the long suites, from 0; None: all of them."""
    _, count = part_of(part)
    return None if count == 1 else seed // count % PARTS


def chosen(tests: Sequence[dict[str, Any]], third: int | None) -> list[int]:
    """The numbers, from 1, of the tests to run."""
    seen: dict[str, int] = {}
    taken = []
    for position, test in enumerate(tests, 1):
        suite = test["name"].split(".")[0]
        index = seen[suite] = seen.get(suite, -1) + 1
        is_other_third = suite in LONG and index % PARTS != third
        if third is None or not (is_other_third or FULL in labels_of(test)):
            taken.append(position)
    return taken


def main(arguments: Sequence[str]) -> int:
    """Takes a build folder, LOCKSTEP_TEST_PART and the number of the commit."""
    folder, part, seed = arguments
    command = ["ctest", "--test-dir", folder, "--show-only=json-v1"]
    tests = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["tests"]
    taken = chosen(tests, third_of(part, int(seed)))
    if not taken:
        raise NothingJudged(f"{folder} has no tests")
    print(",".join(["0,0,0", *map(str, taken)]))
    return 0
