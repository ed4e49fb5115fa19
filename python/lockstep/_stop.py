"""Ends a training after so many updates (LOCKSTEP_RECORD_STOP_AFTER), on all ranks after the same one."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import torch.distributed as dist

from lockstep._guard import Refused

#: How long a rank waits for the others. They have the same updates to do, and perhaps an evaluation.
LIMIT_S = 300.0
#: How long a rank that leaves by os._exit waits for the others to leave, too.
LEAVE_LIMIT_S = 10.0


def meet(after: int, limit_s: float = LIMIT_S) -> None:
    """Waits until each rank of the default group has done its updates: another one may need this one for its last.

    Raises Refused if one does not come.
    """
    if dist.is_available() and dist.is_initialized() and not _all_meet("stop", limit_s):
        raise Refused(f"the training is to stop after {after} updates, and not all of the {dist.get_world_size()} "
                      f"ranks came to that within {limit_s:.0f} s")


def all_leave(updates: int, limit_s: float = LEAVE_LIMIT_S) -> bool:
    """Whether all ranks of the default group leave after the same update: none cuts the training of another one off."""
    try:
        return _all_meet(f"leave/{updates}", limit_s)
    except Exception:
        return False  # the store has gone: another rank left without this one


def _all_meet(purpose: str, limit_s: float) -> bool:
    """No collective: ranks count themselves in the store that they met in."""
    store, world_size = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    if not _all_come(store, f"lockstep/{purpose}/come", world_size, limit_s):
        return False
    try:  # one of the ranks serves the store: it leaves last
        _all_come(store, f"lockstep/{purpose}/seen", world_size if dist.get_rank() == 0 else 0, limit_s)
    except Exception:
        pass  # that one has left, for all have seen that all came
    return True


def _all_come(store: Any, key: str, world_size: int, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    come = int(store.add(key, 1))
    while come < world_size and time.monotonic() < end:
        time.sleep(0.01)
        come = int(store.add(key, 0))
    return come >= world_size


def end_workers() -> None:
    """Ends the processes of loaders, which would outlive this one for a while."""
    workers: list[Any] = multiprocessing.active_children()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(5)

