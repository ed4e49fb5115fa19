"""Small programs, each of one kind, and how lockstep judges them. The first comments of a program say what is right:

# needs: PACKAGE              skipped where it is not installed
# expect: holds               `lockstep check` of a run holds
# expect: LAW CAUSE           the law is broken, and CAUSE is named first
# fixed: …                    the same of a run with --fixed, the mended or the other sound way
# diff: rounding              class of `lockstep diff` of both ways (equal: no difference)
# diff: semantic CAUSE        and the cause that it names first
# resume: …                   the same of a run that saves (--state FILE) and one that goes on (--resume 1)
# restarted: …                and of one that goes on in a wrong way (--restart 1)
"""

import pathlib
import re
import unittest

import torch  # noqa: F401  (once: the ranks run in forks of this process)
import torch.distributed  # noqa: F401

from programs import HERE, ProgramTest, absent, chosen_part, lockstep

SCRIPTS = sorted(path for path in (HERE / "small").glob("*.py") if path.stem != "base")


def expected_of(script):
    return dict(re.findall(r"^# (\w+(?: \w+)?): (.*)$", script.read_text(), re.M))


class SmallTest(ProgramTest):
    def checked(self, folder, expected):
        said = lockstep("check", folder)
        if expected == "holds":
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            return
        law, cause = expected.split()
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertRegex(said.stdout, rf"(?s)  {law} +broken: .*?\n  cause +{re.escape(cause)}\b")

    def differs(self, left, right, expected):
        said = lockstep("diff", left, right)
        if expected == "equal":
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            self.assertIn("agree: ", said.stdout)
            return
        class_, _, cause = expected.partition(" ")
        self.assertIn(f"\n  class       {class_}\n", said.stdout)
        if cause:
            self.assertRegex(said.stdout, rf"\n  cause +{re.escape(cause)}\b", said.stdout)

    def judged(self, script):
        expected = expected_of(script)
        if lacking := absent(expected.get("needs", "").split()):
            self.skipTest("not installed: " + ", ".join(lacking))
        saves = ["--state", self.folder / "state.pt"] if "resume" in expected else []
        run = self.ranks(script, "run", saves)
        self.checked(run, expected["expect"])
        if "fixed" in expected:
            fixed = self.ranks(script, "fixed", ["--fixed"])
            self.checked(fixed, expected["fixed"])
            if "diff" in expected:
                self.differs(fixed, run, expected["diff"])
        for key, right in expected.items():
            kind, _, way = key.partition(" ")
            if kind == "planted":
                planted = self.ranks(script, way, ["--planted", way])
                self.checked(planted, right.partition("; ")[0])
                self.differs(run, planted, right.partition("; ")[2])
            elif kind in ("resume", "restarted"):
                goes_on = [*saves, "--resume" if kind == "resume" else "--restart", way or "1"]
                self.differs(run, self.ranks(script, key.replace(" ", "_"), goes_on), right)


def test_of(script):
    return lambda self: self.judged(script)


for path in SCRIPTS[chosen_part(3)]:
    setattr(SmallTest, f"test_{pathlib.Path(path).stem}", test_of(path))

if __name__ == "__main__":
    unittest.main(verbosity=2)
