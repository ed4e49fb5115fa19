"""Forward passes of the trained models.

Nothing is put on a model: a hook of it would be pickled and copied with it. Its class is wrapped instead.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable

import torch

from lockstep._guard import Failing, guarded
from lockstep._models import Models
from lockstep._passes import Passes


class Calls:
    """Wraps `__call__` of the classes of models, each once."""

    def __init__(self, session: Failing, models: Models, passes: Passes) -> None:
        self._wrapped: weakref.WeakSet[type] = weakref.WeakSet()
        self._models = models
        self._begins = guarded(session, passes.forward_begins)
        self._ends = guarded(session, passes.forward_ends)

    def listen_to(self, model: torch.nn.Module) -> None:
        kind: Any = type(model)
        if kind not in self._wrapped:
            self._wrapped.add(kind)
            kind.__call__ = self._observed(kind.__call__)

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        begins, ends, watches = self._begins, self._ends, self._models.watches

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not watches(self):
                return original(self, *args, **kwargs)
            begins(self, args, kwargs)
            try:
                return original(self, *args, **kwargs)
            finally:
                ends()

        return __call__


def install(session: Failing, models: Models, passes: Passes) -> None:
    models.on_watch(Calls(session, models, passes).listen_to)
