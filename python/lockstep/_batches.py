"""Which samples a forward pass takes: batches that loaders gave, until a model takes them. Holds no tensor alive."""

from __future__ import annotations

import collections
import hashlib
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lockstep._shards import local

#: Batches that wait for a model; older ones were left out by the training.
_WAITING = 64

#: Elements of a tensor by which a copy of it is known.
_LOOKED_AT = 16

NamedTensors = list[tuple[str, torch.Tensor]]


def tensors_in(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of nested containers: "x", "0", "1.input_ids"."""
    if isinstance(value, torch.Tensor):
        yield name or "x", value
    elif isinstance(value, collections.abc.Mapping):
        for key, item in value.items():
            yield from tensors_in(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{name}.{index}" if name else str(index))


def items_in(tensors: Iterable[torch.Tensor]) -> list[int]:
    """A number for each item of a batch, which its content decides: 64 bits of BLAKE2b over its row of each tensor."""
    batched = [local(tensor).detach() for tensor in tensors if tensor.dim() > 0 and not tensor.is_sparse]
    count = batched[0].shape[0] if batched else 0
    rows = [_bytes_of(tensor) for tensor in batched if tensor.shape[0] == count and tensor.numel() > 0]
    items = []
    for index in range(count if rows else 0):
        digest = hashlib.blake2b(digest_size=8)
        for row in rows:
            digest.update(row[index])
        items.append(int.from_bytes(digest.digest(), "little", signed=True))
    return items


def _bytes_of(tensor: torch.Tensor) -> Any:
    there = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    return there.reshape(there.shape[0], -1).view(torch.uint8).numpy()


def look_of(tensor: torch.Tensor) -> str:
    """Shape and some of its elements, the same of a copy on another device."""
    tensor = local(tensor)
    count = tensor.numel()
    if tensor.layout is not torch.strided or count == 0:
        return ""
    tensor = tensor.detach()
    if tensor.is_contiguous():
        some = tensor.view(-1)[::max(1, count // _LOOKED_AT)][:_LOOKED_AT]
    else:
        some = tensor[tuple(slice(None, None, max(1, extent - 1)) for extent in tensor.shape)].reshape(-1)[:_LOOKED_AT]
    return f"{tensor.dtype} {tuple(tensor.shape)} {some.tolist()}"


@dataclass(eq=False)
class Source:
    """A pass over a loader."""

    is_known: bool = False  #: a model took a batch of it as it came, or a copy
    is_trained: bool = False  #: a model that trains took a batch of it


@dataclass(eq=False)
class Batch:
    """What a loader gave at one time."""

    ids: list[int] | None      #: indices into the data set, where its sampler names them
    epoch: int | None          #: as the sampler was told, or how often the loader was begun to train before
    passes: int | None = None  #: the same, where the sampler has an epoch of its own
    source: Source = field(default_factory=Source)
    facts: dict[str, Any] = field(default_factory=dict)  #: of the loader
    for_training: bool = field(default_factory=torch.is_grad_enabled)  #: evaluations fetch without gradients
    items: list[int] = field(default_factory=list)  #: without ids, a number for each item as it came
    looks: set[str] = field(default_factory=set)  #: of its tensors, by which copies of them are known
    storages: list[StorageWeakRef] = field(default_factory=list)
    tensors: list[tuple[str, weakref.ref[torch.Tensor]]] = field(default_factory=list)

    def shares_memory(self, storages: set[int]) -> bool:
        return any(storage.cdata in storages and not storage.expired() for storage in self.storages)

    def named_tensors(self) -> NamedTensors:
        alive = ((name, reference()) for name, reference in self.tensors)
        return [(name, tensor) for name, tensor in alive if tensor is not None]


class Batches:
    """Batches that loaders gave, in order."""

    def __init__(self) -> None:
        self._waiting: collections.deque[Batch] = collections.deque(maxlen=_WAITING)
        self.any_given = self.any_guessed = False
        self._last: Batch | None = None  #: that a model took
        self._asked = False  #: a loader gave something, or had nothing more, since a model took a batch

    @property
    def waiting(self) -> int:
        """Batches that no model has taken."""
        return len(self._waiting)

    def give(self, data: Any, batch: Batch, wants_items: bool) -> None:
        self.any_given = self._asked = True
        named = list(tensors_in(data))
        if batch.ids is None and wants_items:
            batch.items = items_in(tensor for _, tensor in named)
        for name, tensor in named:
            if tensor.layout is torch.strided:
                batch.storages.append(StorageWeakRef(local(tensor).untyped_storage()))
            batch.tensors.append((name, weakref.ref(tensor)))
            batch.looks.add(look_of(tensor))
        self._waiting.append(batch)

    def end(self) -> None:
        """A loader has nothing more: of one that fetches ahead, the last batch is about to be taken."""
        self._asked = True

    def take(self, inputs: Iterable[torch.Tensor]) -> list[Batch]:
        """The batches that these inputs come from: those that share memory with them or look the same, else the oldest.

        Loaders' wrappers fetch ahead and move batches, scripts leave some out and transform others: where a batch is
        left out *and* others are transformed, the oldest one is a wrong guess. One more waits then when the pass ends.
        Where batches are taken as they come, another input (a generator's noise) takes none that was fetched ahead.
        """
        inputs = list(inputs)
        storages = {local(tensor).untyped_storage()._cdata for tensor in inputs if tensor.layout is torch.strided}
        taken = [batch for batch in self._waiting if batch.shares_memory(storages)]
        if not taken and (len(self._waiting) > 1 or not self._asked):  # else it is the only one that can be meant
            looks = {look_of(tensor) for tensor in inputs} - {""}
            taken = [batch for batch in self._waiting if batch.looks & looks][:1]
        if not taken and self._last is not None and self._last.shares_memory(storages):
            return []  # once more
        if not taken:
            return self.take_oldest()
        while taken[0].source is self._waiting[0].source and self._waiting[0] is not taken[0]:
            self._waiting.popleft()  # of the same pass, and left out
        for batch in taken:
            batch.source.is_known = True
            self._waiting.remove(batch)
        self._last, self._asked = taken[-1], False
        return taken

    def facts(self) -> dict[str, Any]:
        """The loader that the training is about to take a batch of."""
        waiting = [batch for batch in self._waiting if batch.for_training] or list(self._waiting)
        return waiting[0].facts if waiting else {}

    def leave_out_evaluations(self) -> None:
        """Of a model that is not called as a whole nobody has taken them."""
        if any(batch.for_training for batch in self._waiting):
            while not self._waiting[0].for_training:
                self._waiting.popleft()

    def take_oldest(self) -> list[Batch]:
        if not self._waiting or (self._waiting[0].source.is_known and not self._asked):
            return []
        self.any_guessed = self.any_guessed or len(self._waiting) > 1
        self._last, self._asked = self._waiting.popleft(), False
        return [self._last]
