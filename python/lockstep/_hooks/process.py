"""The process: forks, and how it ends."""

from __future__ import annotations

import atexit
import multiprocessing.process
import os
import sys
import threading
from typing import Any, Callable

import torch.distributed as dist

from lockstep import _endings, _stop
from lockstep._guard import replace
from lockstep._recording import Leaving


def _is_in_group() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def install(session: Leaving) -> None:
    _endings.mark_rank()
    atexit.register(session.leave)
    os.register_at_fork(after_in_child=session.leave_child)

    def leave(original: Callable[..., Any]) -> Callable[..., Any]:
        def exit(status: Any = None) -> Any:
            session.ending.leaves(status)
            return original(status)

        return exit

    def leave_at_once(original: Callable[[int], Any]) -> Callable[[int], Any]:
        def _exit(status: int) -> Any:
            # Another thread may cut the training off, and so may a rank that leaves a group of others.
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and (not _is_in_group() or (status == 0 and _stop.all_leave(session.updates))):
                session.ending.leaves(status)
                session.finish(status)  # it skips atexit
            return original(status)

        return _exit

    def bootstrap(original: Callable[..., int]) -> Callable[..., int]:
        def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> int:
            exit_code = original(self, *args, **kwargs)
            session.finish(exit_code)  # a forked child ends without atexit
            return exit_code

        return _bootstrap

    replace(sys, "exit", leave)
    replace(os, "_exit", leave_at_once)
    replace(multiprocessing.process.BaseProcess, "_bootstrap", bootstrap)
