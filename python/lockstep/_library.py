"""The C library (lockstep/recorder.h) by ctypes, which frees the interpreter's lock during a call.

The only file that knows the C functions.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from itertools import starmap
from typing import Any

import torch

from lockstep import _shards

NAME = "liblockstep_recorder.so.1"
ABI = 1

_DTYPES = {torch.bool: 0, torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5,
           torch.float16: 6, torch.bfloat16: 7, torch.float32: 8, torch.float64: 9}
_UINT8 = _DTYPES[torch.uint8]


class RecorderError(Exception):
    """The library refused a call, or could not do its work."""


class _Tensor(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("dimensions", c_size_t), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("data", c_void_p)]


class _Shard(ctypes.Structure):
    _fields_ = [("whole", POINTER(c_int64)), ("offset", POINTER(c_int64)), ("mesh", c_char_p), ("placements", c_char_p),
                ("coordinate", POINTER(c_int64)), ("mesh_dimensions", c_size_t)]


class _Config(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("folder", c_char_p), ("rank", c_int64), ("world_size", c_int64),
                ("header", c_char_p), ("channels", POINTER(c_char_p)), ("channel_count", c_size_t), ("every", c_int64)]


_FUNCTIONS = {
    "open": [POINTER(_Config), POINTER(c_void_p)], "begin_step": [c_void_p, c_int64],
    "tensor": [c_void_p, c_char_p, c_char_p, POINTER(_Tensor)],
    "tensors": [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p), POINTER(_Tensor)],
    "shards": [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p), POINTER(_Tensor), POINTER(_Shard)],
    "number": [c_void_p, c_char_p, c_char_p, c_double],
    "integer": [c_void_p, c_char_p, c_char_p, c_int64],
    "integers": [c_void_p, c_char_p, c_char_p, POINTER(c_int64), c_size_t],
    "text": [c_void_p, c_char_p, c_char_p, c_char_p], "end_step": [c_void_p], "drop_step": [c_void_p],
    "hold": [c_void_p, c_int],
    "release": [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_char_p)],
    "close": [c_void_p], "digest": [POINTER(_Tensor), c_char_p],
}

#: Of a tensor that is no part of another one.
_NOWHERE = (None, None, None, None, None, 0)

#: Bytes of a digest as text, with the zero at its end.
_DIGEST_SIZE = 33


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """The library beside this package. Raises RecorderError."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise RecorderError(f"cannot load {path}: {error}") from error
    found = library.lockstep_recorder_abi()
    if found != ABI:
        raise RecorderError(f"{path} has the interface {found}; {ABI} is expected")
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, "lockstep_recorder_" + name)
        function.argtypes, function.restype = arguments, c_int
    library.lockstep_recorder_free.argtypes, library.lockstep_recorder_free.restype = [c_void_p], None
    library.lockstep_recorder_error.argtypes, library.lockstep_recorder_error.restype = [c_void_p], c_char_p
    return library


@functools.lru_cache(maxsize=4096)
def _vector(values: tuple[int, ...]) -> Any:
    return (c_int64 * len(values))(*values)


@functools.lru_cache(maxsize=65536)
def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether its elements lie in memory: not those of a DTensor, or another tensor that wraps some, nor of 'meta'."""
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter and hasattr(kind, "__tensor_flatten__"):
        return False
    return tensor.device.type != "meta" and not tensor.is_quantized


def is_recordable(tensor: torch.Tensor) -> bool:
    """Whether `Recorder.tensors` takes it: it is readable, or a part of which the place is known."""
    part = _shards.part_of(tensor)
    return is_readable(tensor) if part is None else _has_place(part[0])


def _has_place(part: torch.Tensor) -> bool:
    return part.is_complex() or part.dtype in _DTYPES


@functools.lru_cache(maxsize=65536)
def _place(shard: _shards.Shard) -> tuple[Any, ...]:
    """What _Shard is made of."""
    return (_vector(shard.whole), _vector(shard.offset), shard.mesh.encode(), shard.placements.encode(),
            _vector(shard.coordinate), len(shard.coordinate))


def in_memory(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The tensor as the library can read it, and its dtype there: bytes where the format has no such dtype."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.device.type == "cuda":  # its copy is under way; Recorder.tensors waits for all of them at once
        tensor = torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor, non_blocking=True)
    elif tensor.device.type != "cpu":
        tensor = tensor.cpu()
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        return tensor.contiguous().reshape(-1).view(torch.uint8), _UINT8
    return tensor, dtype


def digest_of(tensor: torch.Tensor) -> str:
    """Identity of dtype, shape and elements, as a trace has it. Raises RecorderError."""
    there, dtype = in_memory(tensor.detach().cpu())
    view = _Tensor(dtype, there.dim(), _vector(tuple(there.shape)), _vector(there.stride()), there.data_ptr())
    text = ctypes.create_string_buffer(_DIGEST_SIZE)
    library = load()
    if library.lockstep_recorder_digest(byref(view), text) != 0:
        said: bytes = library.lockstep_recorder_error(None)
        raise RecorderError(said.decode("utf-8", "replace"))
    return text.value.decode()


class Recorder:
    """The trace of one rank. Every method raises RecorderError where the library fails."""

    def __init__(self, folder: str, rank: int, world_size: int, header: Mapping[str, Any], channels: Sequence[str],
                 every: int) -> None:
        self._library = load()
        self._handle = c_void_p()
        names = (c_char_p * len(channels))(*[_encoded(name) for name in channels])
        config = _Config(ctypes.sizeof(_Config), os.fsencode(folder), rank, world_size,
                         _encoded(json.dumps(header)), names, len(channels), every)
        if self._library.lockstep_recorder_open(byref(config), byref(self._handle)) != 0:
            raise RecorderError(self._said(None))

    def begin_step(self, step: int) -> None:
        self._check(self._library.lockstep_recorder_begin_step(self._handle, step))

    def end_step(self) -> None:
        self._check(self._library.lockstep_recorder_end_step(self._handle))

    def drop_step(self) -> None:
        """Forgets the step that has begun."""
        self._check(self._library.lockstep_recorder_drop_step(self._handle))

    def tensors(self, channel: str, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Records all in one call, which copies them and returns."""
        names: list[bytes] = []
        views: list[Any] = []  # what _Tensor is made of
        kept: list[torch.Tensor] = []  # alive until the call returns
        places: list[tuple[Any, ...]] = []  # what _Shard is made of
        devices: set[torch.device] = set()
        unread: list[str] = []
        for name, tensor in named:
            part = _shards.part_of(tensor)
            # The bytes of a dtype that the format lacks have another shape, in which a part has no place.
            if not is_readable(tensor) if part is None else not _has_place(part[0]):
                unread.append(name)
                continue
            places.append(_NOWHERE if part is None else _place(part[1].as_real() if part[0].is_complex() else part[1]))
            tensor = tensor if part is None else part[0]
            there, dtype = in_memory(tensor)
            if tensor.device.type == "cuda":
                devices.add(tensor.device)
            kept.append(there)
            names.append(_encoded(name))
            views.append((dtype, there.dim(), _vector(tuple(there.shape)), _vector(there.stride()), there.data_ptr()))
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
        count = len(names)
        channels, tensors = (c_char_p * count)(*[_encoded(channel)] * count), (_Tensor * count)(*views)
        if all(place is _NOWHERE for place in places):
            status = self._library.lockstep_recorder_tensors(self._handle, count, channels, (c_char_p * count)(*names),
                                                             tensors)
        else:
            status = self._library.lockstep_recorder_shards(self._handle, count, channels, (c_char_p * count)(*names),
                                                            tensors, (_Shard * count)(*starmap(_Shard, places)))
        self._check(status)
        for name in unread:
            self.integer("ledger", f"seen.unread {channel} {name}", 1)

    def raw(self, channel: str, name: str, content: bytes) -> None:
        """Records bytes as a tensor of uint8."""
        view = _Tensor(_UINT8, 1, _vector((len(content),)), None, ctypes.cast(c_char_p(content), c_void_p))
        self._check(self._library.lockstep_recorder_tensor(self._handle, _encoded(channel), _encoded(name),
                                                           byref(view)))

    def number(self, channel: str, name: str, value: float) -> None:
        self._check(self._library.lockstep_recorder_number(self._handle, _encoded(channel), _encoded(name), value))

    def integer(self, channel: str, name: str, value: int) -> None:
        self._check(self._library.lockstep_recorder_integer(self._handle, _encoded(channel), _encoded(name), value))

    def integers(self, channel: str, name: str, values: list[int]) -> None:
        self._check(self._library.lockstep_recorder_integers(self._handle, _encoded(channel), _encoded(name),
                                                             (c_int64 * len(values))(*values), len(values)))

    def text(self, channel: str, name: str, text: str) -> None:
        self._check(self._library.lockstep_recorder_text(self._handle, _encoded(channel), _encoded(name),
                                                         text.encode("utf-8", "backslashreplace")))

    def hold(self, holding: bool) -> None:
        """Whether what is recorded from now on waits for `release`."""
        self._check(self._library.lockstep_recorder_hold(self._handle, holding))

    def release(self, names: Mapping[tuple[str, str], str]) -> None:
        """Adds what waits to the step. `names`: new ones of some, by channel and name."""
        strings = c_char_p * len(names)
        keys = list(names)
        self._check(self._library.lockstep_recorder_release(
            self._handle, len(names), strings(*[_encoded(channel) for channel, _ in keys]),
            strings(*[_encoded(name) for _, name in keys]), strings(*[_encoded(names[key]) for key in keys])))

    def close(self) -> None:
        """Makes the trace a whole one."""
        self._check(self._library.lockstep_recorder_close(self._handle))

    def free(self) -> None:
        """Gives the trace up where `close` did not come before."""
        handle, self._handle = self._handle, c_void_p()
        self._library.lockstep_recorder_free(handle)

    def _check(self, status: int) -> None:
        if status != 0:
            raise RecorderError(self._said(self._handle))

    def _said(self, handle: c_void_p | None) -> str:
        said: bytes = self._library.lockstep_recorder_error(handle)
        return said.decode("utf-8", "replace")
