"""DataLoaders: which samples a batch holds. Workers run ahead: indices wait until their batch comes."""

from __future__ import annotations

import collections
import weakref
from typing import Any, Callable

from torch.utils.data import dataloader

from lockstep import _facts
from lockstep._batches import Batch, Source
from lockstep._guard import guarded, replace
from lockstep._recording import Loading

_Iterator = dataloader._BaseDataLoaderIter


class Pass:
    """One pass over a loader."""

    def __init__(self, loader: Any, number: int, facts_of: Callable[[Any, Any], dict[str, Any]] | None) -> None:
        self.sampler = _sampler_of(loader)
        self.number = number
        self.source = Source()
        self.facts = facts_of(loader, self.sampler) if facts_of is not None else {}
        self.in_order = getattr(loader, "in_order", True) or loader.num_workers == 0
        self.indices: collections.deque[list[int] | None] = collections.deque()

    def batch(self) -> Batch:
        ids = self.indices.popleft() if self.indices else None
        epoch = getattr(self.sampler, "epoch", None)
        ids = ids if self.in_order else None
        if isinstance(epoch, int):
            return Batch(ids, epoch, self.number, source=self.source, facts=self.facts)
        return Batch(ids, self.number, source=self.source, facts=self.facts)


class Loaders:
    """The passes that run, by their iterator."""

    def __init__(self, session: Loading) -> None:
        self._session = session
        self._passes: weakref.WeakKeyDictionary[Any, Pass] = weakref.WeakKeyDictionary()
        self._begun: weakref.WeakKeyDictionary[Any, tuple[int, Source | None]] = weakref.WeakKeyDictionary()

    def begins(self, iterator: Any, loader: Any) -> None:
        number, source = self._begun.get(loader, (-1, None))
        number += source is None or source.is_trained  # an evaluation over the same loader begins no epoch
        # The header tells them; it is written when the trace begins.
        begun = Pass(loader, number, None if self._session.records else _facts.loader_facts)
        self._passes[iterator] = begun
        self._begun[loader] = (number, begun.source)

    def takes(self, iterator: Any, index: Any) -> None:
        if iterator in self._passes:
            self._passes[iterator].indices.append(ids_of(index))

    def gives(self, iterator: Any, data: Any) -> None:
        if iterator not in self._passes:
            return
        batch = self._passes[iterator].batch()
        if not self._session.is_muted:
            self._session.batches.give(data, batch, self._session.wants_items())


    def ends(self, iterator: Any) -> None:
        if iterator in self._passes and not self._session.is_muted:
            self._session.batches.end()


def ids_of(index: Any) -> list[int] | None:
    """Indices into the data set; nothing where it is iterable, or its keys are no numbers."""
    try:
        return [int(i) for i in (index if hasattr(index, "__iter__") else [index])]
    except (TypeError, ValueError):
        return None


def _sampler_of(loader: Any) -> Any:
    """The innermost sampler: what batches and shards of it are made from."""
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    while True:
        inner = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
        if inner is None or inner is sampler:
            return sampler
        sampler = inner


def install(session: Loading) -> None:
    loaders = Loaders(session)
    begins, takes, gives, ends = (guarded(session, hook)
                                  for hook in (loaders.begins, loaders.takes, loaders.gives, loaders.ends))

    def initialise(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, loader: Any) -> None:
            begins(self, loader)
            original(self, loader)

        return __init__

    def reset(original: Callable[..., None]) -> Callable[..., None]:
        def _reset(self: Any, loader: Any, first_iter: bool = False) -> None:
            if not first_iter:
                begins(self, loader)
            original(self, loader, first_iter)

        return _reset

    def next_index(original: Callable[..., Any]) -> Callable[..., Any]:
        def _next_index(self: Any) -> Any:
            index = original(self)
            takes(self, index)
            return index

        return _next_index

    def next_batch(original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(self: Any) -> Any:
            try:
                data = original(self)
            except StopIteration:
                ends(self)
                raise
            gives(self, data)
            return data

        return __next__

    replace(_Iterator, "__init__", initialise)
    replace(_Iterator, "_reset", reset)
    replace(_Iterator, "_next_index", next_index)
    replace(_Iterator, "__next__", next_batch)
