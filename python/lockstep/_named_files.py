"""Files that the command names: those that the program writes are no inputs of it.

written.rank<r>.json beside the trace tells them, as the command spells them. A file that is read before it is written
is an input.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from lockstep import _files


class NamedFiles:
    """What becomes of each word of the command that may be a file."""

    def __init__(self) -> None:
        self._words = {os.path.abspath(word): word for word in getattr(sys, "argv", [])}
        self._is_written: dict[str, bool] = {}  #: by word: what came first

    def opened(self, file: Any, mode: Any) -> None:
        """By open(): "a" and "w" write; "+" in another mode than "w" reads, too."""
        if isinstance(mode, str):
            self._touched(file, is_written=mode[:1] in "wx" or ("a" in mode and "+" not in mode))

    def written(self, file: Any) -> None:
        self._touched(file, is_written=True)

    def _touched(self, file: Any, is_written: bool) -> None:
        if isinstance(file, (str, os.PathLike)):
            word = self._words.get(os.path.abspath(os.fspath(file)))
            if word is not None:
                self._is_written.setdefault(word, is_written)

    def tell(self, folder: str, rank: int) -> None:
        """Nothing where the program wrote none."""
        words = sorted(word for word, is_written in self._is_written.items() if is_written)
        if words:
            _files.write_whole(os.path.join(folder, f"written.rank{rank}.json"), json.dumps(words) + "\n")
