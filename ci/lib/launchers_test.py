"""ci/launchers is red where a launcher's trace has other bytes, or none."""

from __future__ import annotations

import json
import pathlib
import tempfile
import unittest

from lib import launchers
from lib.launchers import Way

STEPS = [json.dumps({"step": step}) for step in range(launchers.STEPS)]
WAY = Way("mpirun", "Open MPI 4", {"kind": "mpirun"})


def trace(variant: str, steps: list[str]) -> str:
    header = {"format": 1, "variant": variant, "check": f"hash of {variant}"}
    return "\n".join([json.dumps(header), *steps, json.dumps({"end": variant})]) + "\n"


class Launchers(unittest.TestCase):
    def compared(self, own: list[str], other: list[str]) -> int:
        with tempfile.TemporaryDirectory() as folder:
            for who, steps in (("own", own), ("7", other)):
                for world_size in launchers.WORLD_SIZES:
                    for rank in range(world_size):
                        file = pathlib.Path(folder, f"{who}-{world_size}/0/rank{rank}.jsonl")
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_text(trace(who, steps))
            return launchers.bytes_compared(pathlib.Path(folder), 7, WAY)

    def test_equal_traces_pass(self) -> None:
        self.assertEqual(self.compared(STEPS, STEPS), 6 * sum(map(len, STEPS)))

    def test_another_byte_is_told(self) -> None:
        with self.assertRaisesRegex(launchers.Differs, r"mpirun, W = 2: rank 0 has other bytes.*\[3\]"):
            self.compared(STEPS, [*STEPS[:2], "{}", *STEPS[3:]])

    def test_traces_that_lack_steps_are_told(self) -> None:
        with self.assertRaises(launchers.Differs):
            self.compared(STEPS[1:], STEPS[1:])

    def test_each_variant_is_compared(self) -> None:
        scenario = launchers.scenario_of({"own": {}, "0": launchers.ELASTIC})
        self.assertEqual([check["variants"] for check in scenario["checks"]], [["own-2", "0-2"], ["own-4", "0-4"]])
        self.assertEqual(scenario["variants"]["0-4"]["launch"]["environment"], {"OMP_NUM_THREADS": "1"})

    def test_the_table_takes_the_place_of_the_old_one(self) -> None:
        page = f"{launchers.HEADING}Old:\n\n| W | bits equal |\n|---|---|\n| 2 | yes |\n\nAfter.\n"
        self.assertEqual(launchers.with_table(page, "New:\n"), f"{launchers.HEADING}New:\n\nAfter.\n")
