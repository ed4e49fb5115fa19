"""Threads that train: one after the other, but not at once."""

from __future__ import annotations

import threading

from lockstep import _guard


class Threads:
    """Those that made calls of a training, in order."""

    def __init__(self) -> None:
        self._seen: list[int] = []

    def enter(self) -> None:
        """Raises Refused where one comes again after another came."""
        thread = threading.get_ident()
        if self._seen and self._seen[-1] == thread:
            return
        if thread in self._seen:
            raise _guard.Refused("two threads of this process train at once: which of them a step belongs to is not "
                                 "known; train in processes")
        self._seen.append(thread)
