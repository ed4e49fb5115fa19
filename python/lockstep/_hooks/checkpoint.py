"""Checkpoints that are written and read: told in checkpoints.rank<r>.jsonl beside the trace.

By torch, safetensors.torch and torch.distributed.checkpoint. Not in the trace: usually one rank writes, and the records
of all ranks are compared.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pathlib
from typing import Any, Callable

import torch
import torch.distributed as dist

from lockstep import _library
from lockstep._batches import tensors_in
from lockstep._guard import guarded, replace
from lockstep._imports import after_import
from lockstep._named_files import NamedFiles
from lockstep._recording import Saving


class Checkpoints:
    """Files written and read, each with the number of updates that were done then."""

    def __init__(self, session: Saving) -> None:
        self._session = session
        self._early: list[dict[str, Any]] = []  #: before the trace began
        session.on_start(self._begin)

    def written(self, content: Any, file: Any, before: dict[str, str] | None,
                read_back: Callable[[Any], Any]) -> None:
        """`before`: digests from before the writing. Where the training went on meanwhile, the file is read again."""
        if _holds_state(content):
            self._session.checkpoint_written()
            path = _path_of(file)
            digests: dict[str, str] | None = _digests_of(content)
            if digests != before:
                digests = _digests_in(file if isinstance(file, io.BytesIO) else path, read_back)
            self._tell("written", path, _sha256_of(file if isinstance(file, (bytes, io.BytesIO)) else path), digests)

    def read(self, content: Any, file: Any) -> None:
        if _holds_state(content):
            path = _path_of(file)
            self._tell("read", path, _sha256_of(file if isinstance(file, (bytes, io.BytesIO)) else path))

    def written_by_all(self, place: str | None) -> None:
        """A folder that all ranks fill; one of them says what is in it, for it may be large."""
        self._session.checkpoint_written()
        self._tell("written", place, _sha256_of(place) if _is_first_rank() else None)

    def read_by_all(self, place: str | None) -> None:
        self._tell("read", place, _sha256_of(place) if _is_first_rank() else None)

    def written_later(self, place: str | None) -> None:
        """A thread or process writes on while the training goes on: what the folder will hold is not known."""
        self._session.checkpoint_written()
        self._tell("written", place, None)

    def _begin(self) -> None:
        early, self._early = self._early, []
        for entry in early:
            self._append(entry)

    def _tell(self, what: str, path: str | None, sha256: str | None,
              digests: dict[str, str] | None = None) -> None:
        entry: dict[str, Any] = {"what": what, "updates": self._session.updates, "file": path, "sha256": sha256}
        if digests is not None:
            entry["digests"] = digests
        if self._session.records:
            self._append(entry)
        else:
            self._early.append(entry)
            if what == "read":
                self._session.loaded.append({"file": os.path.basename(path or ""), "sha256": sha256})

    def _append(self, entry: dict[str, Any]) -> None:
        name = f"checkpoints.rank{self._session.rank}.jsonl"
        with open(os.path.join(self._session.settings.folder, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _holds_state(content: Any) -> bool:
    """Whether it is a dictionary with tensors, or a module: anything else is no checkpoint."""
    if issubclass(type(content), torch.nn.Module):
        return True
    return isinstance(content, dict) and next(tensors_in(content), None) is not None


def _digests_of(content: Any) -> dict[str, str]:
    """A digest of each tensor of a checkpoint: the bytes of two files may differ although they hold the same."""
    modules: dict[str, Any] = {"": content} if issubclass(type(content), torch.nn.Module) else {
        f"{key}.": value for key, value in content.items() if issubclass(type(value), torch.nn.Module)}
    named = [] if "" in modules else list(tensors_in(content))
    for prefix, module in modules.items():
        held = [*module.named_parameters(), *module.named_buffers()]
        named += [(prefix + name, tensor) for name, tensor in held]
    return {name: _library.digest_of(tensor) for name, tensor in named if _library.is_readable(tensor)}


def _digests_in(file: Any, read_back: Callable[[Any], Any]) -> dict[str, str] | None:
    """The digest of a file itself; None where it cannot be read."""
    try:
        return _digests_of(read_back(io.BytesIO(file.getvalue()) if isinstance(file, io.BytesIO) else file))
    except Exception:
        return None  # it may hold anything, and may be gone


def _path_of(file: Any) -> str | None:
    if isinstance(file, (str, os.PathLike)):
        return os.path.abspath(os.fspath(file))
    name = getattr(file, "name", None)
    return os.path.abspath(name) if isinstance(name, str) else None


def _place_of(args: Any, kwargs: Any) -> str | None:
    """Where torch.distributed.checkpoint writes or reads: its `checkpoint_id`, or what a storage was made with."""
    for given in (*args, *kwargs.values()):
        path = given if isinstance(given, (str, os.PathLike)) else getattr(given, "path", None)
        if isinstance(path, (str, os.PathLike)):
            return os.path.abspath(os.fspath(path))
    return None


def _is_first_rank() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def _sha256_of(path: str | bytes | io.BytesIO | None) -> str | None:
    """The digest of a file, of the names and contents of all in a folder, or of a file's content in memory."""
    if path is None:
        return None
    if isinstance(path, (bytes, io.BytesIO)):
        return hashlib.sha256(path if isinstance(path, bytes) else path.getvalue()).hexdigest()
    digest = hashlib.sha256()
    try:
        if os.path.isdir(path):
            for file in sorted(file for file in pathlib.Path(path).rglob("*") if file.is_file()):
                described = _described(file) if file.name == ".metadata" else None
                size = file.stat().st_size if described is None else len(described)
                digest.update(f"{file.relative_to(path)}\0{size}\0".encode())
                if described is None:
                    _add_content(digest, file)
                else:
                    digest.update(described)
        else:
            _add_content(digest, path)
    except OSError:
        return None
    return digest.hexdigest()


def _described(file: pathlib.Path) -> bytes | None:
    """What torch.distributed.checkpoint writes of its tensors' places, without its path and its random number."""
    from torch.distributed.checkpoint import FileSystemReader

    try:
        metadata = FileSystemReader(file.parent).read_metadata()
        tensors = sorted((name, repr(kept)) for name, kept in metadata.state_dict_metadata.items())
        return repr((tensors, sorted(map(repr, (metadata.storage_data or {}).items())))).encode()
    except Exception:
        return None  # of another kind: its bytes tell


def _add_content(digest: Any, path: Any) -> None:
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)


def install(session: Saving, named_files: NamedFiles) -> None:
    checkpoints = Checkpoints(session)
    written, read = guarded(session, checkpoints.written), guarded(session, checkpoints.read)
    named = guarded(session, named_files.written)
    digests = guarded(session, lambda content: _digests_of(content) if _holds_state(content) else None)

    def saves(content_name: str, file_name: str, read_back: Callable[[Any], Any],
              ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Their first two arguments, which may be given by name. Without a name of a file, they return its content."""

        def observed(original: Callable[..., Any]) -> Callable[..., Any]:
            def save(*args: Any, **kwargs: Any) -> Any:
                given = dict(zip((content_name, file_name), args), **kwargs)
                named(given.get(file_name) if file_name else None)
                before = digests(given.get(content_name))
                result = original(*args, **kwargs)
                written(given.get(content_name), given.get(file_name) if file_name else result, before, read_back)
                return result

            return save

        return observed

    def loads(file_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def observed(original: Callable[..., Any]) -> Callable[..., Any]:
            def load(*args: Any, **kwargs: Any) -> Any:
                content = original(*args, **kwargs)
                read(content, args[0] if args else kwargs.get(file_name))
                return content

            return load

        return observed

    def listen_to_safetensors(module: Any) -> None:
        replace(module, "save_file", saves("tensors", "filename", module.load_file))
        replace(module, "load_file", loads("filename"))
        replace(module, "save", saves("tensors", "", module.load))
        replace(module, "load", loads("data"))

    load = torch.load
    replace(torch, "save", saves("obj", "f", lambda file: load(file, map_location="cpu", weights_only=True)))
    replace(torch, "load", loads("f"))
    after_import("safetensors.torch", guarded(session, listen_to_safetensors))
    listen_to_folders = functools.partial(_listen_to_folders, session, checkpoints)
    after_import("torch.distributed.checkpoint", guarded(session, listen_to_folders))
    after_import("torch.distributed.checkpoint.state_dict", guarded(session, functools.partial(_leave_out, session)))


def _leave_out(session: Saving, module: Any) -> None:
    """get_state_dict and set_state_dict make an optimizer's state by an update of gradients and rate 0: it is none."""

    def unrecorded(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(*args: Any, **kwargs: Any) -> Any:
            with session.off(is_update=False):
                return original(*args, **kwargs)

        return prepare

    if hasattr(module, "_init_optim_state"):
        replace(module, "_init_optim_state", unrecorded)


def _listen_to_folders(session: Saving, checkpoints: Checkpoints, module: Any) -> None:
    """The names that scripts call; inside, some of these functions call others by names of their own."""

    def then(hook: Callable[[str | None], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        tell = guarded(session, lambda args, kwargs: hook(_place_of(args, kwargs)))

        def observed(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                tell(args, kwargs)
                return result

            return call

        return observed

    for names, hook in ((("save", "save_state_dict"), checkpoints.written_by_all),
                        (("load", "load_state_dict"), checkpoints.read_by_all),
                        (("async_save",), checkpoints.written_later)):
        for name in names:
            if hasattr(module, name):
                replace(module, name, then(hook))
