"""torch.compile: what it is given. Calls inside of what it returns are not seen."""

from __future__ import annotations

from typing import Any, Callable

import torch

from lockstep._guard import Failing, guarded, replace


def install(session: Failing, compiled: dict[str, None]) -> None:
    def note(given: Any) -> None:
        owner = getattr(given, "__self__", given)  # of a method, a module is meant
        is_module = issubclass(type(owner), torch.nn.Module)
        name = type(owner).__name__ if is_module else getattr(given, "__qualname__", type(given).__name__)
        compiled.setdefault(str(name).rpartition("<locals>.")[2])

    noted = guarded(session, note)

    def observed(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            given = args[0] if args else kwargs.get("model")
            if given is not None and not kwargs.get("disable"):  # as a decorator with options, it comes again
                noted(given)
            return original(*args, **kwargs)

        return compile

    replace(torch, "compile", observed)
