"""Seeds: whether a script sets them, and whether something was drawn before."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Callable

import torch

from lockstep import _state
from lockstep._guard import guarded, replace
from lockstep._imports import after_import

if TYPE_CHECKING:
    from lockstep._session import Session


class Seeds:
    """Of each generator, by the name of its record: "set", "late" (something was drawn before) or "never"."""

    def __init__(self) -> None:
        self._cpu_at_import = _state.cpu_state()
        self._seed_at_import = torch.default_generator.initial_seed()
        self._said: dict[str, str] = {}

    def listens_to(self, name: str) -> None:
        self._said.setdefault(name, "never")

    def sets(self, name: str, seed: Any | None) -> None:
        """`seed`: None: from the clock, or from the system's random numbers."""
        if seed is None:
            self._said[name] = "never"
        elif name == "cpu" and self._said.get(name) == "never" and self._is_drawn_from():
            self._said[name] = "late"
        elif self._said.get(name) != "late":
            self._said[name] = "set"

    def said(self) -> dict[str, str]:
        """The generator of torch has other ways to be seeded, which show in its seed."""
        said = dict(self._said)
        if said.get("cpu") == "never" and torch.default_generator.initial_seed() != self._seed_at_import:
            said.pop("cpu")
        return said

    def _is_drawn_from(self) -> bool:
        return not torch.equal(_state.cpu_state(), self._cpu_at_import)


def install(session: Session) -> None:
    sets = guarded(session, session.seeds.sets)

    def listen(module: Any, function: str, name: str, seed_of: Callable[..., Any]) -> None:
        session.seeds.listens_to(name)

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
