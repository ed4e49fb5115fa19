"""Files that are opened, and put in the place of others."""

from __future__ import annotations

import builtins
import io
import os
from typing import TYPE_CHECKING, Any, Callable

from lockstep._guard import guarded, replace

if TYPE_CHECKING:
    from lockstep._session import Session


def install(session: Session) -> None:
    opened, written = guarded(session, session.named_files.opened), guarded(session, session.named_files.written)

    def open_file(original: Callable[..., Any]) -> Callable[..., Any]:
        def open(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
            opened(file, mode)
            return original(file, mode, *args, **kwargs)

        return open

    def put(original: Callable[..., Any]) -> Callable[..., Any]:
        def rename(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            written(dst)
            return original(src, dst, *args, **kwargs)

        return rename

    replace(builtins, "open", open_file)
    io.open = builtins.open
    replace(os, "replace", put)
    replace(os, "rename", put)
