"""wheel.py is red where a wheel lacks a file, has another, or needs a library that a machine may lack."""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True  # no cache beside the sources
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import wheel  # noqa: E402

TRUE = shutil.which("true")
ENTRIES = "[torch.backends]\nlockstep = _lockstep_autoload:activate\n[pytest11]\nlockstep = lockstep.pytest_plugin\n"


class WheelTest(unittest.TestCase):
    def problems(self, without=(), more=(), entries=ENTRIES, program=TRUE):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "lockstep-1.0-py3-none-linux_x86_64.whl"
            with zipfile.ZipFile(file, "w") as archive:
                for name in (wheel.expected("1.0") - set(without)) | set(more):
                    if os.path.basename(name) in wheel.BINARIES:
                        archive.write(program, name)
                    else:
                        archive.writestr(name, entries if name.endswith("dist-info/entry_points.txt") else "")
            return list(wheel.problems_of(file, "1.0"))

    def test_a_whole_one_has_none(self):
        self.assertEqual(self.problems(), [])

    def test_files_that_are_missing_or_too_much(self):
        for name in ("lockstep/_entry.py", "lockstep/py.typed",
                     "lockstep-1.0.data/data/share/lockstep/python/lockstep/py.typed"):
            self.assertEqual(self.problems(without=[name]), [f"missing: {name}"])
        self.assertEqual(self.problems(more=["torch/lib/libtorch.so"]), ["too much: torch/lib/libtorch.so"])

    def test_a_missing_entry_point(self):
        self.assertEqual(self.problems(entries=ENTRIES.partition("[pytest11]")[0]),
                         ["no entry point '[pytest11]'", "no entry point 'lockstep = lockstep.pytest_plugin'"])

    def test_a_library_that_a_machine_may_lack(self):
        build = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"]) / "bin/lockstep"  # unlike a wheel's
        self.assertTrue(any("needs libcrypto.so" in problem for problem in self.problems(program=str(build))))


if __name__ == "__main__":
    unittest.main()
