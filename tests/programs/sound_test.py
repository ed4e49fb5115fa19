"""Sound programs of many forms: none of them is red, twice, in its other way, and where it goes on from its own file.

Comments of a program say more: `# ways: equal` (or rounding): with --other it computes the same. `# resume: equal`:
with --state FILE it writes a checkpoint, with --resume it goes on from there.
"""

import os
import re
import shutil
import sys
import unittest

import torch  # noqa: F401  (once: the ranks run in forks of this process)
import torch.distributed  # noqa: F401

from programs import HERE, ProgramTest, Trace, absent, chosen_part, lockstep

SCRIPTS = sorted((HERE / "sound").glob("*.py"))
SOUND_CLASSES = ("rounding", "expected")


class SoundTest(ProgramTest):
    def holds(self, run):
        said = lockstep("check", run)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def same(self, left, right):
        said = lockstep("diff", left, right)
        class_ = re.search(r"^  class +(\w+)$", said.stdout, re.M)
        sound = said.returncode == 0 or (class_ is not None and class_[1] in SOUND_CLASSES)
        self.assertTrue(sound, said.stdout + said.stderr)

    def judged(self, script):
        text = script.read_text()
        imported = re.findall(r"^(?:from|import) (accelerate|torchvision|transformers)\b", text, re.M)
        if lacking := absent(imported):
            self.skipTest("not installed: " + ", ".join(lacking))
        saves = ["--state", self.folder / "state.pt"] if "\n# resume: " in text else []
        run = self.ranks(script, "run", saves)
        trace = Trace(run)
        self.assertTrue(trace.names(max(trace.steps), "weight"), "the last step")
        self.holds(run)
        if saves:
            shutil.copy(self.folder / "state.pt", self.folder / "kept.pt")
            resumed = self.ranks(script, "resumed", ["--state", self.folder / "kept.pt", "--resume"])
            self.holds(resumed)
            self.same(run, resumed)
        elif "\n# ways: " in text:
            other = self.ranks(script, "other", ["--other"])
            self.holds(other)
            self.same(run, other)
        else:
            self.same(run, self.ranks(script, "again"))


def test_of(script):
    return lambda self: self.judged(script)


#: With a commit one in eighteen, whose number chooses.
CHOSEN = SCRIPTS[chosen_part(6)]
if len(CHOSEN) < len(SCRIPTS):
    CHOSEN = CHOSEN[int(os.environ.get("LOCKSTEP_CI_SEED", "0")) // 6 % 3::3]

for path in CHOSEN:
    setattr(SoundTest, f"test_{path.stem}", test_of(path))

if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
