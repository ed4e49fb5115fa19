"""The program's own modules: what it computes is in them, and no scenario need name them."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator

#: Folders of what is installed, wherever the interpreter has its own.
_INSTALLED = ("site-packages", "dist-packages")


class Modules:
    """Files that were imported so far, by their path from where the program was started."""

    def __init__(self) -> None:
        self._start = os.getcwd()
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        self._foreign = tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in names)
        self._foreign += (os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep,)  # ours
        self._seen: set[str] = set()  #: files that modules name
        self._told: set[str] = set()
        self._imported = 0  #: modules of all kinds when they were last looked at

    def new(self) -> dict[str, str]:
        """SHA-256 of those that were not told before."""
        if len(sys.modules) == self._imported:
            return {}
        self._imported = len(sys.modules)
        found = {}
        for path in self._own():
            if path not in self._told:
                self._told.add(path)
                try:
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, self._start)] = hashlib.sha256(file.read()).hexdigest()
                except OSError:
                    pass  # of an archive, or gone
        return dict(sorted(found.items()))

    def _own(self) -> Iterator[str]:
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or path in self._seen:
                continue
            self._seen.add(path)
            path = os.path.realpath(os.path.join(self._start, path))
            if not path.startswith(self._foreign) and not any(part in _INSTALLED for part in path.split(os.sep)):
                yield path
