"""Files that are written as a whole."""

from __future__ import annotations

import os
import secrets


def write_whole(path: str, text: str) -> None:
    """A reader sees the old file or the new one. Nothing that others put into the folder is written through."""
    beside = f"{path}.new-{os.getpid()}-{secrets.token_hex(8)}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
