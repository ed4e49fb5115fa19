"""The list has mutations of all folders, and the tool that tests them notices what is wrong with one."""

from __future__ import annotations

import pathlib
import tempfile
import unittest

from lib import mutants
from lib.mutants import Mutant, Result, Test
from lib.repository import ROOT, NothingJudged

ONE = "harness/judge/a.cpp\n- a < b\n+ a <= b\n"


def results(*judged: tuple[str, str]) -> list[Result]:
    return [Result(Mutant("harness/judge/a.cpp", "a", "b", survives=why), 1, by) for by, why in judged]


class TheList(unittest.TestCase):
    def test_it_has_enough_of_each_folder(self) -> None:
        listed = mutants.mutants_in((ROOT / mutants.LIST).read_text(encoding="utf-8"))
        for folder in mutants.FOLDERS:
            self.assertGreaterEqual(sum(one.folder == folder for one in listed), 15, folder)


class Reading(unittest.TestCase):
    def test_a_mutation_is_two_lines_below_its_file(self) -> None:
        self.assertEqual(mutants.mutants_in(f"# why\n\n{ONE}"), [Mutant("harness/judge/a.cpp", "a < b", "a <= b")])

    def test_a_reason_belongs_to_the_mutation_above(self) -> None:
        [one, other] = mutants.mutants_in(f"{ONE}= equal here\n- c\n+ d\n")
        self.assertEqual((one.survives, other.survives, other.file), ("equal here", "", "harness/judge/a.cpp"))

    def test_a_line_that_fits_nowhere_is_named(self) -> None:
        for text in (f"{ONE}a < b\n", "- a\n+ b\n", "harness/judge/a.cpp\n- a\n- b\n", "harness/judge/a.cpp\n= why\n"):
            with self.assertRaisesRegex(NothingJudged, "line [0-9]: cannot be read"):
                mutants.mutants_in(text)


class Obstacles(unittest.TestCase):
    def obstacles(self, source: str, *made: Mutant) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "harness/judge/a.cpp")
            file.parent.mkdir(parents=True)
            file.write_text(source, encoding="utf-8")
            return mutants.obstacles(made, pathlib.Path(name))

    def test_a_text_must_stand_there_once(self) -> None:
        one = Mutant("harness/judge/a.cpp", "a < b", "a <= b")
        self.assertEqual(self.obstacles("if (a < b)\n", one), [])
        self.assertEqual(self.obstacles("if (b > a)\n", one),
                         ["harness/judge/a.cpp: 'a < b' stands there 0 times, not once"])
        self.assertEqual(self.obstacles("a < b; a < b;\n", one),
                         ["harness/judge/a.cpp: 'a < b' stands there 2 times, not once"])
        self.assertIn("0 times", self.obstacles("a < b", Mutant("harness/judge/gone.cpp", "a < b", "b"))[0])

    def test_a_mutation_changes_something_and_stands_there_once(self) -> None:
        self.assertIn("no mutation", self.obstacles("a < b", Mutant("harness/judge/a.cpp", "a < b", "a < b"))[0])
        self.assertIn("no mutation", self.obstacles("a < b", *[Mutant("harness/judge/a.cpp", "a < b", "b")] * 2)[0])

    def test_it_changes_only_its_place(self) -> None:
        one = Mutant("harness/judge/a.cpp", "a < b", "a <= b")
        self.assertEqual(one.made("x\nif (a < b)\ny\n"), "x\nif (a <= b)\ny\n")
        self.assertEqual(one.line_in("x\nif (a < b)\ny\n"), 2)


class Verdict(unittest.TestCase):
    def test_every_survivor_needs_a_reason(self) -> None:
        killed = [("Judge.Sees", "")] * 19
        self.assertTrue(mutants.is_enough(results(*killed)))
        self.assertTrue(mutants.is_enough(results(*killed, ("", "it is the same"))))
        self.assertFalse(mutants.is_enough(results(*killed, ("", ""))))

    def test_reasons_do_not_replace_tests(self) -> None:
        self.assertFalse(mutants.is_enough(results(*[("Judge.Sees", "")] * 18, *[("", "it is the same")] * 2)))

    def test_what_is_killed_has_no_reason_to_survive(self) -> None:
        self.assertFalse(mutants.is_enough(results(("Judge.Sees", "it is the same"))))

    def test_the_table_says_who_killed_it_or_why_none_did(self) -> None:
        by_test, explained, open_ = results(("Judge.Sees", ""), ("", "it is the same"), ("", ""))
        self.assertIn("killed by Judge.Sees", by_test.row())
        self.assertIn("survives: it is the same", explained.row())
        self.assertIn("survives: WITHOUT A REASON", open_.row())


class Failures(unittest.TestCase):
    def test_the_first_test_that_failed_is_named(self) -> None:
        said = "[ RUN      ] A.B\n[  FAILED  ] A.B (3 ms)\n[ RUN      ] A.C\n"
        self.assertEqual(Test("test_judge").name_of_failure(said), "A.B")

    def test_of_a_crash_it_is_the_one_that_ran(self) -> None:
        said = "[ RUN      ] A.B\n[       OK ] A.B (3 ms)\n[ RUN      ] A.C/1\n"
        self.assertEqual(Test("test_judge").name_of_failure(said), "A.C/1")
        self.assertEqual(Test("test_judge").name_of_failure(""), "test_judge")

    def test_a_command_is_named_itself(self) -> None:
        self.assertEqual(Test("lockstep").name_of_failure("DIVERGENCE"), "lockstep gate --selftest")

    def test_a_mutations_own_folder_is_tested_first(self) -> None:
        tests = mutants.tests_for("judge")
        self.assertEqual((tests[0].program, tests[-1].program), ("test_judge", "test_end_to_end"))
        self.assertEqual(len(tests), len(set(tests)))


if __name__ == "__main__":
    unittest.main()
