"""Ends a training after so many updates (LOCKSTEP_RECORD_STOP_AFTER), on all ranks after the same one."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import torch.distributed as dist

from lockstep._guard import Refused

#: How long a rank waits for the others. They have the same updates to do, and perhaps an evaluation.
LIMIT_S = 300.0
_COME, _SEEN = "lockstep/stop/come", "lockstep/stop/seen"


def meet(after: int, limit_s: float = LIMIT_S) -> None:
    """Waits until each rank of the default group has done its updates: another one may need this one for its last.

    No collective: ranks count themselves in the store that they met in. Raises Refused if one does not come.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    store, world_size = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    if not _all_come(store, _COME, world_size, limit_s):
        raise Refused(f"the training is to stop after {after} updates, and not all of the {world_size} ranks came to "
                      f"that within {limit_s:.0f} s")
    try:  # one of the ranks serves the store: it leaves last
        _all_come(store, _SEEN, world_size if dist.get_rank() == 0 else 0, limit_s)
    except Exception:
        pass  # that one has left, for all have seen that all came


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

