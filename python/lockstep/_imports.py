"""Modules that the script may import later, or never."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Callable


def after_import(name: str, tell: Callable[[Any], Any]) -> None:
    """Tells of a module: now if it is there, else right after its import. Not of one whose import is under way."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _AfterImport(name, tell))
    elif not getattr(module.__spec__, "_initializing", False):
        tell(module)


class _AfterImport:
    """A finder that finds what the others do."""

    def __init__(self, name: str, tell: Callable[[Any], Any]) -> None:
        self._name, self._tell = name, tell

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if loader is not None:
            execute, tell = loader.exec_module, self._tell

            def exec_module(module: Any) -> None:
                execute(module)
                tell(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
