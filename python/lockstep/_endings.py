"""How the training ended: a trace is whole only if it came to its end."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from lockstep import _files


def place_of(error: BaseException) -> str:
    """File and line where an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error} ({place_of(error)})"


def refuse(folder: str, rank: int) -> None:
    """Says beside the trace of another process that this one trained as its rank, too: nobody knows which is meant."""
    if not os.path.exists(os.path.join(folder, f"rank{rank}.jsonl")):
        return
    try:
        path = os.path.join(folder, f"rank{rank}.refused")
        _files.write_whole(path, f"process {os.getpid()}: {' '.join(sys.argv)}\n")
    except (OSError, ValueError):
        pass


class Ending:
    """Knows by what a process says itself whether it failed. A killed process says nothing: its trace is torn."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._rank: int | None = None
        self._exit_code: Any = None
        self._error: str | None = None  #: under which the script left, as a `finally` may

    def begin(self, rank: int) -> None:
        self._rank = rank

    def leaves(self, exit_code: Any) -> None:
        """The script calls sys.exit."""
        self._exit_code = exit_code
        error = sys.exc_info()[1]
        # A script that handles an interrupt ends when its user wants.
        is_error = error is not None and not isinstance(error, (SystemExit, KeyboardInterrupt))
        self._error = _text_of(error) if error is not None and is_error else None

    def goes_on(self) -> None:
        """Whatever exit was asked for, somebody caught it."""
        self._exit_code = self._error = None

    def reason(self, exit_code: int) -> str | None:
        """Why the training failed; nothing where it came to its end."""
        error = getattr(sys, "last_value", None)  # what the interpreter printed a traceback of, before any hook
        if error is not None:
            return f"the script ended with {_text_of(error)}"
        code = exit_code or self._exit_code
        if code is None or code == 0:
            return f"the script left with exit code 0 under {self._error}" if self._error is not None else None
        return f"the script left with exit code {code if isinstance(code, int) else 1}"

    def write(self, what: str, where: str = "") -> None:
        """Says beside the trace why it stays torn; where even that fails, the tear says enough."""
        path = os.path.join(self._folder, f"rank{self._rank}.failure.json")
        try:
            with open(path, "x", encoding="utf-8") as file:
                json.dump({"what": what, "where": where, "damaged": False, "missing": False}, file)
                file.write("\n")
        except OSError:
            pass
