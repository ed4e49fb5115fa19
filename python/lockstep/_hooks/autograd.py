"""Backward passes: the loss is what `backward` is called on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import torch

from lockstep._guard import guarded, replace
from lockstep._passes import Passes

if TYPE_CHECKING:
    from lockstep._session import Session


def install(session: Session, passes: Passes) -> None:
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
