"""The one place where errors of the recorder are caught: a recorder that fails never breaks the training."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, Protocol, TypeVar

Result = TypeVar("Result")

#: Exit code of a training that a failed recorder ends (LOCKSTEP_RECORD_STRICT=1).
STRICT_EXIT_CODE = 70


class Refused(Exception):
    """A training that cannot be recorded: its text says why, in a sentence."""


class Failing(Protocol):
    """Who is told of errors."""

    def listens(self) -> bool:
        """Whether hooks are to do anything: not after a failure, nor in a process that records nothing."""

    def fail(self, error: BaseException) -> None:
        """Records nothing more."""


#: Longest message: names may be of any length.
_MOST = 4000


def tell(message: str) -> None:
    """Says something once on stderr, if there is one."""
    if len(message) > _MOST:
        message = f"{message[:_MOST // 2]} [{len(message) - _MOST} characters left out] {message[-_MOST // 2:]}"
    try:
        print(f"lockstep: {message}", file=sys.stderr, flush=True)
    except Exception:
        pass  # closed or full: nobody is there to be told


def end_process(exit_code: int = STRICT_EXIT_CODE) -> None:
    """Ends the process at once: an exception could be caught, or be lost in a thread of the autograd engine."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(exit_code)


def guarded(session: Failing, hook: Callable[..., Result]) -> Callable[..., Result | None]:
    """A hook whose errors stay inside. Without a result where there is nothing to listen to, or where it failed."""

    @functools.wraps(hook)
    def call(*args: Any, **kwargs: Any) -> Result | None:
        if not session.listens():
            return None
        try:
            return hook(*args, **kwargs)
        except Exception as error:
            session.fail(error)
            return None

    return call


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts `make(original)` in the place of a function of a module or class."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))
