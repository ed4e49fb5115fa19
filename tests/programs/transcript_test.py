"""The transcripts of your-training.md, ci.md, goldens.md in docs/: their commands do what the pages show."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, environment
from transcript import answers_in, code_of, commands_in, difference, matches, script_of

ROOT = HERE.parents[1]
EXAMPLES = ROOT / "ci/examples"

#: With the file or folder that it begins with.
PAGES = {"your-training.md": HERE / "ddp_tutorial/train.py", "ci.md": EXAMPLES / "scenarios",
         "goldens.md": EXAMPLES / "scenarios"}

JOBS = ("action.yml", "gitlab-ci.yml", "Jenkinsfile")


class TranscriptTest(ProgramTest):
    def shell(self, commands, begin):
        """Runs commands one after another in one shell, beside a copy of `begin`: transcript.answers_in."""
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "lockstep").symlink_to(LOCKSTEP)
        # As torchrun, which imports torch once more in each rank.
        (programs / "torchrun").write_text(f'#!/bin/sh\nshift\nexec {sys.executable} {HERE}/start.py "$@"\n')
        (programs / "torchrun").chmod(0o755)
        here = self.folder / "here"
        here.mkdir()
        (shutil.copytree if begin.is_dir() else shutil.copy)(begin, here / begin.name)
        path = f"{programs}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = environment(PATH=path, TMPDIR=str(self.folder), SCENARIOS="scenarios")
        variables.pop("CI", None)  # where no golden is accepted
        ended = subprocess.run(["bash", "-c", script_of(commands)], cwd=here, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=variables)
        return answers_in(ended.stdout)

    def expect_page(self, name):
        found = commands_in((ROOT / "docs" / name).read_text())
        self.assertGreaterEqual(len(found), 6)
        said = self.shell([command for command, _ in found], PAGES[name])
        self.assertEqual(len(said), len(found))
        for (command, shown), (code, actual) in zip(found, said):
            with self.subTest(command):
                self.assertEqual(difference(shown, code, actual), "")

    def test_a_training_of_ones_own(self):
        self.expect_page("your-training.md")

    def test_a_gate_in_ci(self):
        self.expect_page("ci.md")

    def test_the_life_of_a_golden(self):
        self.expect_page("goldens.md")

    def test_the_jobs_run_what_they_keep(self):
        gates = {re.search(r"lockstep gate [^'\n]*", file.read_text()).group()
                 for file in EXAMPLES.rglob("*") if file.name in JOBS}
        self.assertEqual(len(gates), 2)
        commands = ["lockstep golden accept scenarios --reason first"]
        for gate in gates:
            commands += ["rm -rf traces lockstep.*", gate, "echo $?; ls -d lockstep.* traces"]
        self.assertEqual([lines for _, lines in self.shell(commands, EXAMPLES / "scenarios")[3::3]],
                         [["0", "lockstep.md", "lockstep.xml", "traces"]] * 2)

    def test_another_line_is_no_match(self):
        shown = ["checks:", "...", "  cause   lr … (0.1 s)"]
        self.assertTrue(matches(shown, ["checks:", "a", "b", "  cause   lr is 2 (12 s)"]))
        self.assertTrue(matches(shown, ["checks:", "  cause   lr is 2 (12 s)"]))
        self.assertFalse(matches(shown, ["checks:", "  cause   rate is 2 (12 s)"]))
        self.assertFalse(matches(shown, ["checks:", "  cause   lr is 2 (12 s)", "another"]))
        self.assertFalse(matches(["agree"], ["divergence"]))
        self.assertFalse(matches(["1"], ["0"]))

    def test_a_verdict_has_its_exit_code(self):
        for code, shown in ((0, ["runs/a: agree", "..."]), (1, ["...", "divergence: 1 scenario, 2 of 2 runs"]),
                            (3, ["baseline: 1 scenario"])):
            self.assertEqual(code_of(shown), code)
            self.assertEqual(difference(shown, code, shown), "")
            self.assertIn(f"exit code {code + 1}", difference(shown, code + 1, shown))
        self.assertIsNone(code_of(["wrote train.json: 2 ranks", "the runs agree"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
