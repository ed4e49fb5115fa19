"""python -m lockstep …: the program `lockstep` of this package, where its folder is not in PATH."""

from __future__ import annotations

import os
import sys

from lockstep import _program


def main() -> None:
    try:
        program = _program.find()
    except FileNotFoundError as error:
        print(f"lockstep: {error}", file=sys.stderr)
        sys.exit(2)  # a usage error, as the program has it
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
