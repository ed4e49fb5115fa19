"""`cpack -G DEB` makes a package that works where it is unpacked, and with which others build."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"])

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(lockstep 0.1 REQUIRED)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE lockstep::recorder)
"""
PROGRAM = """
#include <lockstep/recorder.h>
int main(int, char** arguments) {
  lockstep_recorder_config config = {};
  config.size = sizeof config;
  config.folder = arguments[1];
  config.world_size = 1;
  lockstep_recorder* recorder = nullptr;
  if (lockstep_recorder_open(&config, &recorder) != LOCKSTEP_OK) return 1;
  lockstep_recorder_begin_step(recorder, 0);
  lockstep_recorder_number(recorder, "ledger", "learning_rate", 0.5);
  lockstep_recorder_end_step(recorder);
  return lockstep_recorder_close(recorder);
}
"""


def run(*words, **more):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, **more).stdout


class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-debian-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        run("cpack", "-G", "DEB", "-B", cls.folder, cwd=BUILD)
        cls.package, = cls.folder.glob("lockstep_*_amd64.deb")
        cls.usr = cls.folder / "root/usr"
        run("dpkg-deb", "-x", cls.package, cls.folder / "root")

    def test_it_holds_all_but_the_worker(self):
        names = run("dpkg-deb", "-c", self.package)
        for name in ("bin/lockstep\n", "lib/liblockstep_recorder.so.1 ->", "include/lockstep/recorder.h",
                     "lib/cmake/lockstep/lockstep-config.cmake",
                     "lib/cmake/lockstep/lockstep-scenarios.cmake", "lib/pkgconfig/lockstep-recorder.pc",
                     "share/lockstep/python/lockstep/_entry.py",
                     "share/lockstep/python/lockstep/liblockstep_recorder.so.1",
                     "share/man/man1/lockstep.1", "share/bash-completion/completions/lockstep\n",
                     "share/zsh/site-functions/_lockstep\n", "share/fish/vendor_completions.d/lockstep.fish\n",
                     ".egg-info/entry_points.txt", "share/lockstep/scenario.schema.json",
                     "share/doc/lockstep/LICENSE", "share/doc/lockstep/NOTICE",
                     "share/lockstep/python/lockstep/demo/no_sampler.jsonc"):
            self.assertIn("./usr/" + name if not name.startswith(".") else name, names)
        self.assertNotIn("lockstep-worker", names)
        self.assertIn("libxxhash0", run("dpkg-deb", "-f", self.package, "Depends"))

    def test_others_build_with_it_and_it_reads_what_they_record(self):
        here = self.folder / "user"
        here.mkdir()
        (here / "CMakeLists.txt").write_text(PROJECT)
        (here / "main.cpp").write_text(PROGRAM)
        run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.usr}", cwd=here)
        run("cmake", "--build", "build", cwd=here)
        run(here / "build/program", here / "run")
        lockstep = self.usr / "bin/lockstep"
        self.assertIn("learning_rate", run(lockstep, "show", here / "run"))
        python = {**os.environ, "PYTHONPATH": str(self.usr / "share/lockstep/python"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.assertEqual(run(sys.executable, "-m", "lockstep", "--version", env=python), run(lockstep, "--version"))


if __name__ == "__main__":
    if shutil.which("dpkg-shlibdeps") is None:
        print("skipped: no dpkg-shlibdeps (package dpkg-dev)")
        sys.exit(77)
    unittest.main(verbosity=2)
