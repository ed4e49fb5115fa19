"""The image's packages are those whose libraries the programs load, LibTorch's own aside."""

import os
import pathlib
import platform
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"])
FROM_DEBIAN = ("/lib/", "/usr/lib/")
IN_EVERY_IMAGE = {"libc6"}


def loaded(program):
    """Files of Debian's that the loader takes."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {path for path in re.findall(r"=> (/\S+)", said) if path.startswith(FROM_DEBIAN)}


def owner_of(path):
    """Its package; of a library in /lib that is /usr/lib, dpkg knows one of the two."""
    for one in (path, os.path.realpath(path), "/usr" + path):
        said = subprocess.run(["dpkg-query", "--search", one], capture_output=True, text=True)
        if said.returncode == 0:
            return said.stdout.split(":")[0]
    raise AssertionError(f"no package owns {path}")


class DockerfileTest(unittest.TestCase):
    def test_it_installs_what_the_programs_load(self):
        last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
        listed = re.search(r"--no-install-recommends \\\n\s+(.*?) \\\n", last)[1].split()
        needed = {owner_of(path) for name in ("lockstep", "lockstep-worker") for path in loaded(BUILD / "bin" / name)}
        self.assertEqual(sorted(needed - IN_EVERY_IMAGE), sorted(listed))


if __name__ == "__main__":
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != "bookworm":
        print("skipped: this is not Debian 12, of which the image is")
        sys.exit(77)
    unittest.main()
