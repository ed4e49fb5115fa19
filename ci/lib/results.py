"""Reads the results that ctest writes for ci/test: the slowest tests, those that failed, those that were skipped."""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Sequence

SLOWEST = 15


def summary(cases: Sequence[xml.etree.ElementTree.Element]) -> str:
    """What there is to say of all tests; its last line counts them."""
    slowest = sorted(cases, key=lambda case: -float(case.get("time", 0)))[:SLOWEST]
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    failed = [case.get("name") for case in cases if case.get("status") != "run" and case.get("name") not in skipped]
    return "\n".join([
        "The slowest tests:",
        *(f"{float(case.get('time', 0)):8.1f} s  {case.get('name')}" for case in slowest),
        *(f"failed: {name}" for name in failed),
        *(f"skipped: {name}" for name in skipped),
        f"{len(cases) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped",
    ])


def main(arguments: Sequence[str]) -> int:
    """Reads one file in JUnit's format."""
    print("\n" + summary(xml.etree.ElementTree.parse(arguments[0]).getroot().findall("testcase")))
    return 0
