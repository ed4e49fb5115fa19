"""Files that the command names: those that the program writes are no inputs of it.

files.rank<r>.json beside the trace tells when each was first read and first written, as the command spells it. A file
that a rank reads before any writes it is an input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from lockstep import _files


class NamedFiles:
    """What becomes of each word of the command that may be a file."""

    def __init__(self) -> None:
        #: Without the script itself, which is an input always.
        self._words = {os.path.abspath(word): word for word in getattr(sys, "argv", [])[1:]}
        self._times: dict[str, dict[str, int]] = {"read": {}, "written": {}}  #: by word, since the epoch in ns

    def opened(self, file: Any, mode: Any) -> None:
        """By open(): "a" and "w" write; "+" in another mode than "w" reads, too."""
        if isinstance(mode, str):
            writes = mode[:1] in "wx" or ("a" in mode and "+" not in mode)
            self._touched(file, "written" if writes else "read")

    def opened_by_flags(self, file: Any, flags: Any) -> None:
        """By os.open(): what is not only written may be read."""
        self._touched(file, "written" if flags & os.O_ACCMODE == os.O_WRONLY else "read")

    def written(self, file: Any) -> None:
        self._touched(file, "written")

    def _touched(self, file: Any, how: str) -> None:
        if isinstance(file, (str, os.PathLike)):
            word = self._words.get(os.path.abspath(os.fspath(file)))
            if word is not None:
                self._times[how].setdefault(word, time.time_ns())

    def tell(self, folder: str, rank: int) -> None:
        """Nothing where the program wrote none of them and read none."""
        if any(self._times.values()):
            _files.write_whole(os.path.join(folder, f"files.rank{rank}.json"), json.dumps(self._times) + "\n")
