"""Gradients before and after DDP reduces them; those of FSDP2 are in `sharded`.

A rank's own gradient of an update is the sum of what its backward passes add. Where several passes reduce (accumulation
without no_sync), the later ones add to what is reduced already: it is taken off, so both ways of accumulation record
the same. A script may change what DDP handed out: that is kept until the update, which shows both.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep._own_gradients import OwnGradients
from lockstep._recording import Recording


@dataclass(eq=False)
class Wrapped:
    """A model in DDP."""

    wrapper: weakref.ref[DistributedDataParallel]
    reduces: bool = False  #: whether DDP was told to reduce the gradients of the forward pass that came last
    passed: bool = False  #: the backward pass that runs has made gradients of it
    passes: int = 0  #: backward passes of that update that are reduced
    passes_since: int = 0  #: those that came after them


class Reductions:
    """By the identity of parameters."""

    def __init__(self, session: Recording) -> None:
        self._session = session
        self.sharded = OwnGradients(session)
        self._wrapped: dict[int, Wrapped] = {}  #: by the identity of the wrapper
        self._own: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  #: parameter, and its own gradient so far
        self._left: dict[int, torch.Tensor] = {}  #: copies of what the last backward pass has left
        self._handed_out: set[int] = set()  #: those that DDP has reduced
        self._added_to: set[int] = set()  #: those that the pass adds to which runs
        self._waits = True  #: own gradients until the update, for several passes may reduce
        self._any = self._several = False  #: a pass of this step is reduced; several are in one update

    def made(self, wrapper: DistributedDataParallel) -> Wrapped:
        wrapped = Wrapped(weakref.ref(wrapper))
        self._wrapped[id(wrapper)] = wrapped
        return wrapped

    def forward_begins(self, wrapper: DistributedDataParallel) -> None:
        wrapped = self._wrapped.get(id(wrapper))
        if wrapped is not None:
            wrapped.reduces = bool(wrapper.require_backward_grad_sync)

    def backward_begins(self) -> None:
        """It adds to what the pass before has left, unless somebody cleared or changed that."""
        self._added_to.clear()
        for identity, (parameter, _) in list(self._own.items()):
            if parameter.grad is not None and _is_same(self._left.get(identity), parameter.grad):
                self._added_to.add(identity)
            else:
                self._tell([identity])

    def accumulated(self, wrapped: Wrapped, parameter: torch.Tensor) -> None:
        """A backward pass has made a gradient, and DDP has not reduced it."""
        wrapped.passed = True
        gradient = parameter.grad
        reduces = wrapped.reduces or wrapped.passes > 0  # where an earlier pass is reduced, all that follow should be
        if not reduces or gradient is None or not self._wants_own():
            return
        self._any = True
        if not self._waits or not _is_plain(gradient):
            self._several = self._several or id(parameter) in self._left
            self._record([(parameter, gradient)])
        elif id(parameter) in self._added_to:
            self._several = True
            _, before = self._own[id(parameter)]
            added = _on_cpu(gradient).double() - self._left[id(parameter)].double()
            self._own[id(parameter)] = (parameter, before + added)
        else:
            self._own[id(parameter)] = (parameter, _copy_of(gradient).double())

    def backward_ends(self) -> None:
        self.sharded.backward_ends()
        for wrapped in self._wrapped.values():
            wrapper = wrapped.wrapper()
            if not wrapped.passed or wrapper is None:
                continue
            wrapped.passed = False
            if wrapped.reduces:
                wrapped.passes, wrapped.passes_since = wrapped.passes + 1, 0
            else:
                wrapped.passes_since += wrapped.passes > 0
            for parameter in wrapper.module.parameters():
                self._forget(parameter)
                if wrapped.passes and self._keeps(parameter):
                    self._left[id(parameter)] = _copy_of(parameter.grad)
                    if wrapped.reduces:
                        self._handed_out.add(id(parameter))

    def _keeps(self, parameter: torch.Tensor) -> bool:
        session = self._session
        return (parameter.grad is not None and _is_plain(parameter.grad) and self._wants_own()
                and session.wants("gradient"))

    def _wants_own(self) -> bool:
        return self._session.wants("gradient.local") and self._session.models.are_readable()

    def changed(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """What DDP handed out, where the script has changed it since. Asked once."""
        left = self._left.get(id(parameter)) if id(parameter) in self._handed_out else None
        self._forget(parameter)
        return None if left is None or _is_same(left, parameter.grad) else left

    def update_begins(self, parameters: Iterable[torch.Tensor], has_closure: bool = False) -> None:
        """These gradients are about to be used, or clipped: what is added to them later is another gradient.

        `has_closure`: the update computes gradients first, which FSDP2 may add to those of the passes before.
        """
        parameters = list(parameters)
        if not has_closure:
            self.sharded.update_begins(parameters)
        used = {id(parameter) for parameter in parameters}
        self._tell([identity for identity in self._own if identity in used])

    def update_ends(self) -> None:
        self._tell(list(self._own))
        step = self._session.step
        for wrapped in self._wrapped.values():
            step.reduced_passes = max(step.reduced_passes, wrapped.passes)
            step.unreduced_passes = max(step.unreduced_passes, wrapped.passes_since)
            wrapped.passes = wrapped.passes_since = 0

    def step_ends(self) -> None:
        self.sharded.step_ends()
        self._tell(list(self._own))
        if self._any:
            self._waits = self._several
        self._any = self._several = False
        self._left.clear()
        self._handed_out.clear()

    def _forget(self, parameter: torch.Tensor) -> None:
        self._left.pop(id(parameter), None)
        self._handed_out.discard(id(parameter))

    def _tell(self, identities: list[int]) -> None:
        if identities:
            self._record(self._own.pop(identity) for identity in identities)

    def _record(self, own: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._session.recorder.tensors("gradient.local", self._named(own))

    def _named(self, own: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        for parameter, gradient in own:
            name = self._session.models.name_of(parameter)
            if name is not None:
                yield self._session.step.unique("gradient.local", name), gradient.to(parameter.dtype)


def _is_plain(gradient: torch.Tensor) -> bool:
    return gradient.layout is torch.strided and gradient.is_floating_point() and type(gradient) is torch.Tensor


def _copy_of(gradient: torch.Tensor) -> torch.Tensor:
    """On the CPU: there is room for it."""
    there = _on_cpu(gradient)
    return there.clone() if gradient.device.type == "cpu" else there


def _is_same(copy: torch.Tensor | None, gradient: torch.Tensor | None) -> bool:
    return copy is not None and gradient is not None and _is_plain(gradient) and torch.equal(copy, _on_cpu(gradient))


def _on_cpu(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.detach().cpu()
