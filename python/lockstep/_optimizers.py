"""The optimizers of a process, and whose update ends a step. Holds them weakly."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import Optimizer

#: Entries of a parameter group that are no hyperparameters: the rate has records of its own.
_NOT_HYPER = frozenset({"params", "lr", "initial_lr", "param_names"})


class Optimizers:
    """Optimizers in the order in which they became known."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[Optimizer]] = []
        self._names: weakref.WeakKeyDictionary[Optimizer, str] = weakref.WeakKeyDictionary()
        self._hyper: weakref.WeakKeyDictionary[Optimizer, dict[str, float]] = weakref.WeakKeyDictionary()
        self._several = False
        #: Those whose updates make up a step; empty: all that are known.
        self._turn: list[weakref.ref[Optimizer]] = []

    def meet(self, optimizer: Optimizer) -> None:
        if not any(known is optimizer for known in self.alive()):
            self._known.append(weakref.ref(optimizer))

    def alive(self) -> Iterator[Optimizer]:
        for reference in self._known:
            optimizer = reference()
            if optimizer is not None:
                yield optimizer

    def outermost(self) -> list[Optimizer]:
        """Those that no other one wraps."""
        alive = list(self.alive())
        wrapped = {id(value) for optimizer in alive for value in vars(optimizer).values()}
        return [optimizer for optimizer in alive if id(optimizer) not in wrapped]

    def with_whole_state(self) -> Iterator[Optimizer]:
        """Those whose state is on this rank."""
        sharded = [optimizer for optimizer in self.alive() if is_sharded(optimizer)]
        parts = {id(value) for optimizer in sharded for value in [optimizer, *vars(optimizer).values()]}
        return (optimizer for optimizer in self.alive() if id(optimizer) not in parts)

    def parameters(self) -> Iterator[torch.Tensor]:
        for optimizer in self.alive():
            yield from parameters_of(optimizer)

    def fix_names(self) -> None:
        """With one optimizer, what the ledger holds of it has no prefix from now on."""
        outermost = self.outermost()
        self._several = len(outermost) > 1
        for optimizer in outermost:
            self.prefix(optimizer)

    def prefix(self, optimizer: Optimizer) -> str:
        """Of its records in the ledger: nothing for the only one."""
        if optimizer not in self._names:
            used = set(self._names.values())
            self._names[optimizer] = next(name for name in map("optimizer{}.".format, itertools.count())
                                          if name not in used)
        name = self._names[optimizer]
        return name if self._several or not name.startswith("optimizer0.") else ""

    def expected(self) -> list[Optimizer]:
        """Those whose updates make up a step."""
        turn = [reference() for reference in self._turn]
        return [optimizer for optimizer in turn if optimizer is not None] or self.outermost()

    def lead(self, identities: set[int]) -> None:
        """From now on these make up a step: others do not take turns with them."""
        self._turn = [weakref.ref(optimizer) for optimizer in self.alive() if id(optimizer) in identities]

    def some_lead(self) -> bool:
        return bool(self._turn)

    def rates(self, optimizer: Optimizer) -> list[tuple[str, float]]:
        return [(self.prefix(optimizer) + "learning_rate" + suffix, float(group["lr"]))
                for suffix, group in _groups(optimizer) if "lr" in group]

    def changed_hyperparameters(self, optimizer: Optimizer) -> list[tuple[str, float]]:
        """Hyperparameters of each group that are new or other than before: "momentum", "betas.0", "momentum.1"."""
        prefix = self.prefix(optimizer)
        now: dict[str, float] = {}
        for suffix, group in _groups(optimizer):
            for key, value in group.items():
                if key not in _NOT_HYPER:
                    now.update((prefix + name + suffix, number) for name, number in _numbers(key, value))
        before = self._hyper.get(optimizer, {})
        self._hyper[optimizer] = now
        return [(name, value) for name, value in now.items() if before.get(name) != value]


def is_sharded(optimizer: Optimizer) -> bool:
    return any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__)


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def state_of(optimizer: Optimizer, names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    """Entries of its state: "fc1.weight.momentum_buffer"; of lists "fc1.weight.old_dirs.0"."""
    told: set[int] = set()
    for parameter in parameters_of(optimizer):
        if id(parameter) in told or parameter not in optimizer.state:
            continue
        told.add(id(parameter))
        yield from _entries(names[id(parameter)], optimizer.state[parameter])


def _entries(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entries(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _entries(f"{name}.{index}", item)
    else:
        yield name, value


def _groups(optimizer: Optimizer) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, group in enumerate(optimizer.param_groups):
        yield (f".{index}" if index else ""), group


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    for entry, number in _entries(name, value):
        if isinstance(number, torch.Tensor) and number.numel() == 1:
            number = number.item()
        if isinstance(number, (bool, int, float)):
            yield entry, float(number)
