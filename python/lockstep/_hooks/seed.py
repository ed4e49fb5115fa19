"""Seeds: whether a script sets them, and whether something was drawn before."""

from __future__ import annotations

import random
from typing import Any, Callable

import torch

from lockstep._generators import Seeds
from lockstep._guard import Failing, guarded, replace
from lockstep._imports import after_import


def install(session: Failing, seeds: Seeds) -> None:
    sets = guarded(session, seeds.sets)

    def listen(module: Any, function: str, name: str, seed_of: Callable[..., Any]) -> None:
        seeds.listens_to(name)

        def observed(original: Callable[..., Any]) -> Callable[..., Any]:
            def set_seed(*args: Any, **kwargs: Any) -> Any:
                sets(name, seed_of(*args, **kwargs))
                return original(*args, **kwargs)

            return set_seed

        replace(module, function, observed)

    def first(*args: Any, **kwargs: Any) -> Any:
        return next(iter([*args, *kwargs.values()]), None)

    listen(torch.random, "manual_seed", "cpu", first)
    torch.manual_seed = torch.random.manual_seed
    for function in ("seed", "setstate"):
        listen(random, function, "python", first)

    def listen_to_numpy(module: Any) -> None:
        for function in ("seed", "set_state"):
            listen(module, function, "numpy", first)

    after_import("numpy.random", guarded(session, listen_to_numpy))
