"""Where things are, and the commit that is checked."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit_seed() -> str | None:
    """The number that the commit is, or LOCKSTEP_CI_SEED. None if there is neither."""
    asked = os.environ.get("LOCKSTEP_CI_SEED")
    if asked:
        return asked
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return str(int(commit[:7], 16)) if commit else None


def root_in(arguments: Sequence[str]) -> pathlib.Path:
    """The checkout that a command is given, or this one."""
    return pathlib.Path(arguments[0]) if arguments else ROOT


def replace_file(file: pathlib.Path, text: str) -> None:
    """Writes a file aside and renames it: it is whole, or as it was."""
    aside = file.with_name(file.name + ".new")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)


class NothingJudged(Exception):
    """Why a command could judge nothing."""


def exit_code(command: str, program: Callable[[], int]) -> int:
    """Runs the program of a command. The code is 2 if nothing was judged; 1 is a divergence."""
    try:
        return program()
    except (NothingJudged, OSError, subprocess.CalledProcessError) as why:
        print(f"ci/{command}: {why}", file=sys.stderr)
        return 2
