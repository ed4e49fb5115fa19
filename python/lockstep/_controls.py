"""Control runs: what `lockstep` changes beside the training, to see which difference it makes (LOCKSTEP_CONTROL)."""

from __future__ import annotations

import ctypes
import inspect
import os
import time
from collections.abc import Mapping
from typing import Any, Callable

import torch

#: glibc, malloc.h: fresh memory is filled with the complement of this byte. As the variable MALLOC_PERTURB_.
_M_PERTURB = -6


class Controls:
    """What is asked for. Raises ValueError where it is not known."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        known: dict[str, type | tuple[type, ...]] = {"threads": int, "deterministic": bool, "bucket_mb": (int, float),
                                                     "step_delay_ms": list, "fill": int}
        for name, value in asked.items():
            if name not in known or not isinstance(value, known[name]):
                raise ValueError(f"LOCKSTEP_CONTROL: '{name}' with {value!r} is no control; these are known: "
                                 f"{', '.join(known)}")
        self._asked = asked

    def apply(self) -> None:
        """Sets what is process-wide; again before the first step, for a script may set it meanwhile."""
        if "threads" in self._asked:
            torch.set_num_threads(self._asked["threads"])
        if self._asked.get("deterministic"):
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        if "fill" in self._asked:
            torch._C._set_deterministic_fill_uninitialized_memory(False)  # it would write over this one
            ctypes.CDLL(None).mallopt(_M_PERTURB, self._asked["fill"])

    def delay(self, rank: int) -> None:
        """Before a backward pass, so that a rank comes late to the reduction."""
        delays = self._asked.get("step_delay_ms") or []
        if rank < len(delays) and delays[rank] > 0:
            time.sleep(delays[rank] / 1000)

    def ddp_arguments(self, initialise: Callable[..., None], args: tuple[Any, ...],
                      kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of DDP's constructor, self included, with buckets of the size that is asked for."""
        if "bucket_mb" not in self._asked:
            return args, kwargs
        bound = inspect.signature(initialise).bind(*args, **kwargs)
        bound.arguments["bucket_cap_mb"] = self._asked["bucket_mb"]
        bound.arguments.pop("bucket_cap_mb_list", None)
        return bound.args, bound.kwargs
