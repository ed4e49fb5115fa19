"""Parts of the recorder, each on a fake session: parts/*_test.py. One process: importing torch takes longest."""

import sys
import unittest

from programs import HERE, PACKAGE

sys.path[:0] = [str(PACKAGE), str(HERE / "parts")]


def load_tests(loader, _tests, _pattern):
    return loader.discover(str(HERE / "parts"), "*_test.py")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
