#!/usr/bin/env python3
"""endurance.py must see what grows, and nothing where nothing does."""

import contextlib
import io
import sys
import unittest

sys.dont_write_bytecode = True
import endurance  # noqa: E402

RUNS = 200


def looks(descriptors=lambda ended: 20, processes=lambda ended: 12, shared=lambda ended: 3,
          memory=lambda ended: 1 << 24):
    return [{"ended": ended, "descriptors": descriptors(ended), "processes": processes(ended),
             "shared memory": shared(ended), "memory": memory(ended)} for ended in range(RUNS)]


class Growth(unittest.TestCase):
    def complaints(self, seen):
        with contextlib.redirect_stdout(io.StringIO()):
            return endurance.growth(seen, RUNS)

    def test_nothing_grows(self):
        self.assertEqual(self.complaints(looks(descriptors=lambda ended: 20 + ended % 3)), [])

    def test_one_in_ten_runs_leaves_something(self):
        for what in ("descriptors", "processes", "shared"):
            found = self.complaints(looks(**{what: lambda ended: 20 + ended // 10}))
            self.assertEqual(len(found), 1, found)
            self.assertIn(what, found[0])

    def test_memory_grows(self):
        self.assertEqual(self.complaints(looks(memory=lambda ended: (1 << 24) + 500 * ended)), [])
        self.assertEqual(len(self.complaints(looks(memory=lambda ended: (1 << 24) + 5000 * ended))), 1)

    def test_too_few_looks_are_no_pass(self):
        self.assertEqual(len(self.complaints(looks()[:100])), 1)
        self.assertEqual(len(self.complaints([])), 1)


if __name__ == "__main__":
    unittest.main()
