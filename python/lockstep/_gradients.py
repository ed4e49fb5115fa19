"""What became of gradients: an update has used them, or they were clipped. Only identities are kept, and no tensor."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch

from lockstep._shards import local

#: A parameter, its gradient, and the gradient's version: any change in place makes another.
_Seen = tuple["weakref.ref[torch.Tensor]", "weakref.ref[torch.Tensor]", int]


class Gradients:
    """By the identity of their parameters."""

    def __init__(self) -> None:
        self._used: dict[int, _Seen] = {}
        self._clipped: dict[int, _Seen] = {}
        self._left: set[int] = set()  #: used by an update, not cleared, and added to since
        self._clipped_early: set[int] = set()  #: clipped, and added to since
        self.clipped_late = 0  #: clipped after the update that used them, since the last one

    def used_in(self, parameters: Iterable[torch.Tensor]) -> int:
        """How many of these gradients an update has used, and nothing has changed since."""
        return sum(id(p) in self._used and id(p) not in self._left and _is_there(self._used[id(p)])
                   and _is_unchanged(self._used[id(p)]) for p in parameters)

    def clipped(self, parameters: Iterable[torch.Tensor]) -> int:
        """How many gradients there are to be clipped."""
        seen = _seen_of(parameters)
        self._clipped.update(seen)
        return len(seen)

    def backward_begins(self) -> None:
        """It adds to what is there."""
        for identity in list(self._used):
            if not _is_there(self._used[identity]):
                del self._used[identity]
                self._left.discard(identity)
            elif identity not in self._left and _is_unchanged(self._used[identity]):
                self._left.add(identity)
            elif not _is_unchanged(self._used[identity]):  # cleared in place, or changed by the script
                del self._used[identity]
                self._left.discard(identity)
        for identity in [identity for identity, seen in self._clipped.items()
                         if not _is_there(seen) or not _is_unchanged(seen)]:  # cleared since, or changed by the script
            if identity not in self._clipped_early:
                del self._clipped[identity]

    def backward_ends(self) -> None:
        self._clipped_early |= {identity for identity, seen in self._clipped.items()
                                if _is_there(seen) and seen[2] != seen[0]().grad._version}  # type: ignore[union-attr]
        for identity in self._left:
            parameter, gradient, _ = self._used[identity]
            now = gradient()
            if now is not None:
                self._used[identity] = (parameter, gradient, now._version)

    def left_in(self, parameters: Iterable[torch.Tensor]) -> int:
        """How many of these hold a gradient that an update used before."""
        return sum(id(p) in self._left and _is_there(self._used[id(p)]) for p in parameters)

    def clipped_early_in(self, parameters: Iterable[torch.Tensor]) -> int:
        """How many of these were clipped before a backward pass that added to them."""
        return sum(id(p) in self._clipped_early and _is_there(self._clipped[id(p)]) for p in parameters)

    def used(self, parameters: list[torch.Tensor], skipped: bool) -> None:
        """An update is done, or was left out."""
        for parameter in parameters:
            for known in (self._used, self._clipped):
                known.pop(id(parameter), None)
            self._left.discard(id(parameter))
            self._clipped_early.discard(id(parameter))
        if not skipped:
            self._used.update(_seen_of(parameters))


def _seen_of(parameters: Iterable[torch.Tensor]) -> dict[int, _Seen]:
    return {id(parameter): (weakref.ref(parameter), weakref.ref(parameter.grad), parameter.grad._version)
            for parameter in parameters if parameter.grad is not None}


def _is_there(seen: _Seen) -> bool:
    parameter, gradient = seen[0](), seen[1]()
    return parameter is not None and gradient is not None and parameter.grad is gradient


def _is_unchanged(seen: _Seen) -> bool:
    """And no zeros: a kernel that clears many at once need not count as a change."""
    gradient = seen[1]()
    return gradient is not None and gradient._version == seen[2] and bool(local(gradient).any())
