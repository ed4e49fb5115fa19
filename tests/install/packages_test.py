"""packages.py is red where a package is untrue, speaks of the machine that built it, or leaves something behind."""

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # no cache beside the sources
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import packages  # noqa: E402

PROGRAM = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"]) / "bin/lockstep"
FILES = ("lockstep-1.0-py3-none-any.whl", "lockstep-1.0.tar.gz", "lockstep_1.0_amd64.deb",
         "lockstep_worker-1.0-py3-none-any.whl")


class PackagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-packages-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_a_tag_names_the_oldest_machine(self):
        def problems(tag):
            return list(packages.problems_of_tag(f"lockstep-1.0-py3-none-{tag}_x86_64.whl", self.folder))

        self.assertEqual(len(problems("manylinux_2_35")), 1)  # no binary
        shutil.copy(PROGRAM, self.folder)
        self.assertEqual(problems("manylinux_2_35"), [])
        self.assertIn("needs GLIBC (2, 34), but its tag has (2, 17)", problems("manylinux_2_17")[0])
        self.assertIn("needs GLIBCXX (3, 4, 30), but its tag has (3, 4, 29)", problems("manylinux_2_34")[0])
        self.assertIn("has no manylinux tag", problems("linux")[0])

    def test_content(self):
        def problems():
            return list(packages.problems_of_content("x", self.folder, ["/where/it/was/built"]))

        for licence in ("LICENSE", "NOTICE"):
            shutil.copy(packages.ROOT / licence, self.folder)
        self.assertEqual(problems(), [])
        (self.folder / "a").write_bytes(b"\0/where/it/was/built/x.h\0")
        self.assertEqual(problems(), ["x: a holds /where/it/was/built"])
        (self.folder / "a").write_text("https://index.example/" + "simple")
        self.assertEqual(problems(), ["x: a holds the address of an index"])
        (self.folder / "a").unlink()
        (self.folder / "NOTICE").write_text("of another version")
        self.assertEqual(problems(), ["x has no NOTICE"])

    def test_the_set_of_packages(self):
        for name in FILES:
            (self.folder / name).write_text(name)
        sums = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in FILES)
        (self.folder / "SHA256SUMS").write_text(sums)
        self.assertEqual(list(packages.problems_of_set(self.folder, "1.0")), [])
        (self.folder / FILES[0]).write_text("another")
        self.assertEqual(list(packages.problems_of_set(self.folder, "1.0")), ["SHA256SUMS is not that of the files"])
        (self.folder / FILES[0]).rename(self.folder / "z.whl")
        self.assertEqual(list(packages.problems_of_set(self.folder, "1.0"))[:2],
                         ["0 files lockstep-1.0-py3-none-*.whl", "too much: z.whl"])

    def test_what_a_removal_leaves(self):
        (self.folder / "link").symlink_to("nowhere")
        self.assertEqual(list(packages.problems_of_removal("x", {"taken"}, packages.files_in(self.folder))),
                         ["x left link", "x took taken with it"])


if __name__ == "__main__":
    unittest.main()
