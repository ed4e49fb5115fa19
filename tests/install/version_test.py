"""The programs say the commit where git or a source archive knows it, and no other commit."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

CMAKE = pathlib.Path(__file__).resolve().parents[2] / "cmake"
BUILD = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"])
GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
PERSON = [word for key in ("author", "committer") for part in ("name", "email") for word in ("-c", f"{key}.{part}=x")]


def run(*words, **more):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, env=GIT, **more).stdout


class Version(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-version-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.tree = self.root / "tree"
        for name in ("version.cmake", "commit.txt"):
            self.copy(CMAKE / name, self.tree / "cmake" / name)
        self.copy(CMAKE.parent / ".gitattributes", self.tree / ".gitattributes")

    def copy(self, source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def commit(self, folder):
        run("git", "init", "--quiet", folder)
        run("git", "add", ".", cwd=folder)
        run("git", *PERSON, "commit", "--quiet", "-m", "x", cwd=folder)
        return run("git", "rev-parse", "HEAD", cwd=folder)[:12]

    def version(self, tree):
        output = self.root / "version.cpp"
        run("cmake", f"-DSOURCE={tree}", f"-DOUTPUT={output}", "-DVERSION=1.2.3", "-P", tree / "cmake/version.cmake")
        return re.search('return "(.*)"', output.read_text())[1]

    def archive(self, folder):
        """As `git archive` gives it."""
        folder.mkdir()
        run("tar", "-xf", "-", "-C", folder, input=run("git", "archive", "HEAD", cwd=self.tree))
        return folder

    def test_a_work_tree(self):
        commit = self.commit(self.tree)
        self.assertEqual(self.version(self.tree), f"1.2.3 (commit {commit})")
        (self.tree / "more.h").touch()
        self.assertEqual(self.version(self.tree), f"1.2.3 (commit {commit} with changes)")

    def test_a_source_archive_also_in_a_work_tree_of_something_else(self):
        commit = self.commit(self.tree)
        self.assertEqual(self.version(self.archive(self.root / "archive")), f"1.2.3 (commit {commit})")
        other = self.root / "other"
        self.copy(CMAKE / "version.cmake", other / "file")
        self.commit(other)
        self.assertEqual(self.version(self.archive(other / "archive")), f"1.2.3 (commit {commit})")

    def test_no_commit_is_known(self):
        self.assertEqual(self.version(self.tree), "1.2.3")
        self.copy(CMAKE / "version.cmake", self.root / "file")
        self.commit(self.root)
        self.assertEqual(self.version(self.tree), "1.2.3")

    def test_the_same_again_compiles_nothing(self):
        self.version(self.tree)
        before = (self.root / "version.cpp").stat().st_mtime_ns
        self.version(self.tree)
        self.assertEqual((self.root / "version.cpp").stat().st_mtime_ns, before)

    def test_the_python_package_is_of_the_same_version(self):
        project = re.search(r"^project\(lockstep VERSION (\S+)", (CMAKE.parent / "CMakeLists.txt").read_text(), re.M)[1]
        package = (CMAKE.parent / "python/lockstep/__init__.py").read_text()
        self.assertIn(f'\n__version__ = "{project}"\n', package)

    def test_the_programs_say_it(self):
        for program in ("lockstep", "lockstep-worker"):
            self.assertRegex(run(BUILD / "bin" / program, "--version"),
                             rf"^{program} [\d.]+( \(commit [0-9a-f]{{12}}( with changes)?\))?, build [0-9a-f]+\n$")


if __name__ == "__main__":
    unittest.main()
