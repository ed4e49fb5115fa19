"""The transcripts of your-training.md, ci.md, goldens.md in docs/: their commands give the output that pages show.

Blocks marked "console" hold it: a line "$ command", then all that it prints. A line "..." stands for any lines,
"…" within a line for any words. Durations, the number of records compared and the build's may be others.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, environment

ROOT = HERE.parents[1]
EXAMPLES = ROOT / "ci/examples"

#: With the file or folder that it begins with.
PAGES = {"your-training.md": HERE / "ddp_tutorial/train.py", "ci.md": EXAMPLES / "scenarios",
         "goldens.md": EXAMPLES / "scenarios"}

#: What another recorder, machine or build prints otherwise.
VARYING = [(re.compile(r"\b\d+(?=  (agree|baseline|divergence)$)"), "#"),  # of records compared
           (re.compile(r"\b\d+(\.\d+)? (ms|s|min)\b"), "# s"), (re.compile(r"\bbuild [0-9a-f]{16}\b"), "build #")]


JOBS = ("action.yml", "gitlab-ci.yml", "Jenkinsfile")


def commands_in(page):
    """(command, lines of its output), over all blocks."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def steady(line):
    for pattern, text in VARYING:
        line = pattern.sub(text, line)
    return line.rstrip()


def matches(expected, actual):
    """Whether lines are those that the page shows."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in steady(line).split("…")) + r"\n"
    return re.fullmatch(pattern, "".join(steady(line) + "\n" for line in actual)) is not None


class TranscriptTest(ProgramTest):
    def shell(self, commands, begin):
        """Runs commands one after another in one shell, beside a copy of `begin`; returns what each printed."""
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "lockstep").symlink_to(LOCKSTEP)
        # As torchrun, which imports torch once more in each rank.
        (programs / "torchrun").write_text(f'#!/bin/sh\nshift\nexec {sys.executable} {HERE}/start.py "$@"\n')
        (programs / "torchrun").chmod(0o755)
        here = self.folder / "here"
        here.mkdir()
        (shutil.copytree if begin.is_dir() else shutil.copy)(begin, here / begin.name)
        script = "mark() { local status=$?; printf '@@\\n'; return $status; }\n"
        script += "".join(f"mark\n{command}\n" for command in commands)
        path = f"{programs}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = environment(PATH=path, TMPDIR=str(self.folder), SCENARIOS="scenarios")
        variables.pop("CI", None)  # where no golden is accepted
        ended = subprocess.run(["bash", "-c", script], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env=variables)
        return [said.splitlines() for said in ended.stdout.split("@@\n")[1:]]

    def expect_page(self, name):
        found = commands_in((ROOT / "docs" / name).read_text())
        self.assertGreaterEqual(len(found), 6)
        said = self.shell([command for command, _ in found], PAGES[name])
        self.assertEqual(len(said), len(found))
        for (command, expected), actual in zip(found, said):
            with self.subTest(command):
                self.assertTrue(matches(expected, actual), "\n".join(["expected:", *expected, "actual:", *actual]))

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
        self.assertEqual(self.shell(commands, EXAMPLES / "scenarios")[3::3],
                         [["0", "lockstep.md", "lockstep.xml", "traces"]] * 2)

    def test_another_line_is_no_match(self):
        shown = ["checks:", "...", "  cause   lr … (0.1 s)"]
        self.assertTrue(matches(shown, ["checks:", "a", "b", "  cause   lr is 2 (12 s)"]))
        self.assertTrue(matches(shown, ["checks:", "  cause   lr is 2 (12 s)"]))
        self.assertFalse(matches(shown, ["checks:", "  cause   rate is 2 (12 s)"]))
        self.assertFalse(matches(shown, ["checks:", "  cause   lr is 2 (12 s)", "another"]))
        self.assertFalse(matches(["agree"], ["divergence"]))
        self.assertFalse(matches(["1"], ["0"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
