"""Checkpoints that torch.save writes and torch.load reads: told in checkpoints.rank<r>.jsonl beside the trace.

Not in the trace: usually one rank writes, and the records of all ranks are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import torch

from lockstep._batches import tensors_in
from lockstep._guard import guarded, replace

if TYPE_CHECKING:
    from lockstep._session import Session


class Checkpoints:
    """Files written and read, each with the number of updates that were done then."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._early: List[Dict[str, Any]] = []  #: before the trace began
        session.on_start(self._begin)

    def written(self, content: Any, file: Any) -> None:
        if _holds_state(content):
            self._session.checkpoint_written()
            self._tell("written", file)

    def read(self, content: Any, file: Any) -> None:
        if _holds_state(content):
            self._tell("read", file)

    def _begin(self) -> None:
        early, self._early = self._early, []
        for entry in early:
            self._append(entry)

    def _tell(self, what: str, file: Any) -> None:
        path = _path_of(file)
        entry = {"what": what, "updates": self._session.updates, "file": path,
                 "sha256": _sha256_of(path) if path is not None else None}
        if self._session.records:
            self._append(entry)
        else:
            self._early.append(entry)
            if what == "read":
                self._session.loaded.append({"file": os.path.basename(path or ""), "sha256": entry["sha256"]})

    def _append(self, entry: Dict[str, Any]) -> None:
        name = f"checkpoints.rank{self._session.rank}.jsonl"
        with open(os.path.join(self._session.settings.folder, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _holds_state(content: Any) -> bool:
    """Whether it is a dictionary with tensors, or a module: anything else is no checkpoint."""
    if issubclass(type(content), torch.nn.Module):
        return True
    return isinstance(content, dict) and next(tensors_in(content), None) is not None


def _path_of(file: Any) -> Optional[str]:
    if isinstance(file, (str, os.PathLike)):
        return os.path.abspath(os.fspath(file))
    name = getattr(file, "name", None)
    return os.path.abspath(name) if isinstance(name, str) else None


def _sha256_of(path: str) -> Optional[str]:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def install(session: "Session") -> None:
    checkpoints = Checkpoints(session)
    written, read = guarded(session, checkpoints.written), guarded(session, checkpoints.read)

    def save(original: Callable[..., None]) -> Callable[..., None]:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            original(obj, f, *args, **kwargs)
            written(obj, f)

        return save

    def load(original: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            content = original(f, *args, **kwargs)
            read(content, f)
            return content

        return load

    replace(torch, "save", save)
    replace(torch, "load", load)
