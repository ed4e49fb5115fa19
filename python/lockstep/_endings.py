"""How the training ended: a trace is whole only if it came to its end."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

from lockstep import _files


def place_of(error: BaseException) -> str:
    """File and line where an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error} ({place_of(error)})"


#: The number of the rank's process, for those that it starts.
_MARK = "LOCKSTEP_RECORD_RANK_PROCESS"


def mark_rank() -> None:
    """Lets processes that a rank starts know that they are none. They have its variables, too."""
    if os.environ.get("RANK"):
        os.environ.setdefault(_MARK, str(os.getpid()))


def _is_of_a_rank() -> bool:
    return os.environ.get(_MARK, str(os.getpid())) != str(os.getpid())


def _parent_has(*names: str) -> bool:
    """Whether the parent process began with this process' values of variables, or cannot be asked."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            theirs = file.read().split(b"\0")
    except OSError:
        return True
    return all(name not in os.environ or os.fsencode(f"{name}={os.environ[name]}") in theirs for name in names)


def _starts_again() -> bool:
    """Whether torchrun starts all ranks again after a failure: only the last one says why the training ended."""
    count, most = (os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    return count.isdigit() and most.isdigit() and int(count) < int(most)


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
        self._write(f"rank{self._rank}", what, where)

    def write_before_start(self) -> None:
        """Says why a rank, or the command that starts the ranks, failed before its trace began.

        A process that one of them started says nothing: whoever started it may go on.
        """
        rank = os.environ.get("RANK", "")
        reason = self.reason(0)
        if reason is None or (rank and not rank.isdigit()) or _is_of_a_rank() or _starts_again():
            return
        if not _parent_has("LOCKSTEP_RECORD", *(["RANK"] if rank else [])):
            self._write(f"rank{int(rank)}" if rank else "command", reason)

    def _write(self, name: str, what: str, where: str = "") -> None:
        failure = {"what": what, "where": where, "damaged": False, "missing": False, "at_ns": time.time_ns()}
        interfaces = os.environ.get("NCCL_SOCKET_IFNAME")
        if interfaces:
            failure["nccl_interfaces"] = interfaces
        try:
            # In the place of what a helper may have said, whose end a rank outlives.
            _files.write_whole(os.path.join(self._folder, f"{name}.failure.json"), json.dumps(failure) + "\n")
        except (OSError, ValueError):  # a message may hold half of a surrogate pair
            pass
