"""Files that are opened, and put in the place of others."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any, Callable

from lockstep._guard import Failing, guarded, replace
from lockstep._named_files import NamedFiles


def install(session: Failing, named_files: NamedFiles) -> None:
    opened_by_flags = guarded(session, named_files.opened_by_flags)
    opened, written = guarded(session, named_files.opened), guarded(session, named_files.written)

    def open_file(original: Callable[..., Any]) -> Callable[..., Any]:
        def open(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
            opened(file, mode)
            return original(file, mode, *args, **kwargs)

        return open

    def open_by_flags(original: Callable[..., Any]) -> Callable[..., Any]:
        def open(path: Any, flags: Any, *args: Any, **kwargs: Any) -> Any:
            opened_by_flags(path, flags)
            return original(path, flags, *args, **kwargs)

        return open

    def put(original: Callable[..., Any]) -> Callable[..., Any]:
        def rename(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            written(dst)
            return original(src, dst, *args, **kwargs)

        return rename

    replace(builtins, "open", open_file)
    io.open = builtins.open
    for name, observed in (("open", open_by_flags), ("replace", put), ("rename", put)):
        takes_descriptors = getattr(os, name) in os.supports_dir_fd
        replace(os, name, observed)
        if takes_descriptors:
            os.supports_dir_fd.add(getattr(os, name))  # shutil asks
