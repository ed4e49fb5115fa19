"""Makes the compile commands of GCC ones that clang-tidy understands.

The compiler's precompiled headers are none of clang's. It knows neither GCC's warnings nor ccache.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence

OF_GCC = re.compile(r"-Winvalid-pch|-include \S*cmake_pch\.hxx|\S*/ccache |-W\S+")


def for_clang(command: str) -> str:
    """One command."""
    return OF_GCC.sub("", command)


def main(arguments: Sequence[str]) -> int:
    """Reads one compile_commands.json, and writes the other."""
    before, after = map(pathlib.Path, arguments)
    commands = json.loads(before.read_text(encoding="utf-8"))
    for command in commands:
        command["command"] = for_clang(command["command"])
    after.parent.mkdir(parents=True, exist_ok=True)
    after.write_text(json.dumps(commands), encoding="utf-8")
    return 0
