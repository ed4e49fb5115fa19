"""Collectives that DDP issues below Python, as c10d's flight recorder keeps them for Gloo.

Nothing where torch has no such recorder (before 2.8), or where the environment switched it off.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

_SIZE = "TORCH_FR_BUFFER_SIZE"

#: Collectives that are kept. Reading them costs as much as are kept, not as are new: 0.2 ms for 32.
_KEPT = 64

_OPERATIONS = {"all_reduce": "allreduce", "all_gather": "allgather", "all_to_all": "alltoall",
               "_all_gather_base": "allgather", "_reduce_scatter_base": "reduce_scatter"}

#: Operation, dtype and elements of each tensor.
Collective = tuple[str, tuple[tuple[str, int], ...]]


def tells_of(backend: str) -> bool:
    """Whether the recorder keeps the collectives of a process group."""
    from torch._C import _distributed_c10d as c10d
    return backend == "gloo" and hasattr(c10d, "_dump_fr_trace") and os.environ.get(_SIZE) != "0"


class Flight:
    """Reads what came since the last reading."""

    def __init__(self) -> None:
        os.environ.setdefault(_SIZE, str(_KEPT))
        from torch._C import _distributed_c10d as c10d
        self._dump = getattr(c10d, "_dump_fr_trace", None)
        self._next = 0

    def take(self) -> list[Collective]:
        """In the order of their issue. The first is ("lost", …) where more came than are kept."""
        taken: list[Collective] = []
        for entry in self._entries():
            lost = entry["record_id"] - self._next
            if lost > 0:
                taken.append(("lost", (("", lost),)))
            if lost >= 0:
                taken.append(_collective_of(entry))
                self._next = entry["record_id"] + 1
        return taken

    def skip(self) -> None:
        """Forgets what came until now."""
        self._next = max((entry["record_id"] + 1 for entry in self._entries()), default=self._next)

    def _entries(self) -> Iterator[dict[str, Any]]:
        if self._dump is None:
            return
        trace = pickle.loads(self._dump(includeCollectives=True, includeStackTraces=False, onlyActive=False))
        yield from (entry for entry in trace.get("entries", []) if not entry.get("is_p2p"))


def _collective_of(entry: dict[str, Any]) -> Collective:
    name = entry["profiling_name"].rpartition(":")[2]
    tensors = zip(entry["input_dtypes"], entry["input_sizes"])
    return _OPERATIONS.get(name, name), tuple((dtype, _product(sizes)) for dtype, sizes in tensors)


def _product(sizes: list[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count
