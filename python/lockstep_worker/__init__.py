"""The program lockstep-worker, which finds the LibTorch of the torch that is installed beside this package."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Becomes the program: its process is the one that lockstep started."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lockstep-worker")
    os.execv(program, [program, *sys.argv[1:]])
