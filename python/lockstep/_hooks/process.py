"""The process: forks, and how it ends."""

from __future__ import annotations

import multiprocessing.process
import os
import sys
from typing import TYPE_CHECKING, Any, Callable

from lockstep._guard import replace

if TYPE_CHECKING:
    from lockstep._session import Session


def install(session: Session) -> None:
    os.register_at_fork(after_in_child=session.leave_child)

    def leave(original: Callable[..., Any]) -> Callable[..., Any]:
        def exit(status: Any = None) -> Any:
            session.ending.leaves(status)
            return original(status)

        return exit

    def bootstrap(original: Callable[..., int]) -> Callable[..., int]:
        def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> int:
            exit_code = original(self, *args, **kwargs)
            session.finish(exit_code)  # a forked child ends without atexit
            return exit_code

        return _bootstrap

    replace(sys, "exit", leave)
    replace(multiprocessing.process.BaseProcess, "_bootstrap", bootstrap)
