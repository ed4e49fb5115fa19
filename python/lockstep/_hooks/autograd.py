"""Backward passes: the loss is what `backward` is called on."""

from __future__ import annotations

from typing import Any, Callable

import torch

from lockstep._guard import Failing, guarded, replace
from lockstep._passes import Passes


def install(session: Failing, passes: Passes) -> None:
    begins = guarded(session, passes.backward_begins)
    ends = guarded(session, passes.backward_ends)

    def observed(original: Callable[..., None]) -> Callable[..., None]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if torch.compiler.is_compiling():
                return original(tensors, *args, **kwargs)
            begins(tensors)
            try:
                return original(tensors, *args, **kwargs)
            finally:
                ends()

        return backward

    replace(torch.autograd, "backward", observed)
