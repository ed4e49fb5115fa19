"""Modules as they are made: which of them holds a parameter is not to be learned from the parameter."""

from __future__ import annotations

from typing import Any, Callable

import torch

from lockstep._guard import Failing, guarded, replace
from lockstep._models import Models


def install(session: Failing, models: Models) -> None:
    made = guarded(session, models.made)

    def observed(original: Callable[..., None]) -> Callable[..., None]:
        def make(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if not torch.compiler.is_compiling():
                made(self)

        return make

    replace(torch.nn.Module, "__init__", observed)
    replace(torch.nn.Module, "__setstate__", observed)  # copies and unpickled ones
