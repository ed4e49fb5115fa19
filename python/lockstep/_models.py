"""Which modules are trained, and how their parameters are called. Holds modules and parameters weakly."""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from lockstep import _fsdp, _shards

#: Modules around the one that people mean; their names are no part of a parameter's.
_WRAPPERS = (DistributedDataParallel, DataParallel)

#: Modules that keep parts of their parameters on other ranks, by the name of their class, and how people call them.
_SHARDED = {"FullyShardedDataParallel": "FSDP", "DeepSpeedEngine": "DeepSpeed"}

#: Modules that keep averages of the weights of others (EMA): those of torch and timm.
_AVERAGES = frozenset({"AveragedModel", "ModelEma", "ModelEmaV2", "ModelEmaV3"})


def sharding_of(module: torch.nn.Module) -> str | None:
    """Who shards some of its parameters as plain tensors; nothing where all of them are whole, or say what they are."""
    for part in module.modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _SHARDED:
                return _SHARDED[kind.__name__]
    if any(_shards.is_localized(parameter) for parameter in module.parameters()):
        return "DDP over tensor parallelism"
    return None


class Models:
    """The outermost modules whose parameters are updated ("roots"), in the order in which they became known."""

    def __init__(self) -> None:
        self._made: weakref.WeakValueDictionary[int, torch.nn.Module] = weakref.WeakValueDictionary()
        self._numbers = itertools.count()
        self._roots: list[weakref.ref[torch.nn.Module]] = []
        self._several = False
        self._readable: bool | None = None
        self._prefixes: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._names: dict[int, str] = {}
        self._signatures: weakref.WeakKeyDictionary[torch.nn.Module, list[str]] = weakref.WeakKeyDictionary()
        #: What the training calls: the root itself, or DDP around it.
        self._callers: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._listen: Callable[[torch.nn.Module], None] | None = None

    def made(self, module: torch.nn.Module) -> None:
        """A module was constructed, copied or unpickled."""
        self._made[next(self._numbers)] = module

    def averages(self) -> list[str]:
        """Classes of the modules that keep averages of weights."""
        names = {kind.__name__ for module in self._made.values() for kind in type(module).__mro__}
        return sorted(names & _AVERAGES)

    def roots(self) -> Iterator[tuple[int, torch.nn.Module]]:
        for index, reference in enumerate(self._roots):
            root = reference()
            if root is not None:
                yield index, root

    def adopt(self, module: torch.nn.Module) -> None:
        """Makes a module a root, unless it is a part of one; its own parts are none any more."""
        parts = {id(part) for part in module.modules()}
        known = [reference for reference in self._roots if reference() is not None and id(reference()) not in parts]
        if not any(module is part for reference in known for part in _modules_of(reference)):
            known.append(weakref.ref(module))
        self._roots = known
        self._readable = None
        self._prefixes.clear()
        self.refresh()

    def on_watch(self, listen: Callable[[torch.nn.Module], None]) -> None:
        self._listen = listen

    def watch(self, caller: torch.nn.Module) -> None:
        self._callers[id(caller)] = weakref.ref(caller)
        if self._listen is not None:
            self._listen(caller)

    def watches(self, module: torch.nn.Module) -> bool:
        reference = self._callers.get(id(module))
        return reference is not None and reference() is module

    def adopt_holders_of(self, parameters: Iterable[torch.Tensor]) -> list[torch.nn.Module]:
        """Finds the outermost modules that hold these parameters, and returns the new ones."""
        wanted = [parameter for parameter in parameters if id(parameter) not in self._names]
        if not wanted:
            return []
        modules = [module for module in self._made.values() if type(module) not in _WRAPPERS]
        inner = {id(child) for module in modules for child in module._modules.values()}
        new = []
        for module in modules:
            if id(module) not in inner and _holds_any(module, {id(parameter) for parameter in wanted}):
                new.append(module)
        places = {id(parameter): place for place, parameter in enumerate(wanted)}
        new.sort(key=lambda module: min(places.get(id(p), len(places)) for p in _fsdp.parameters(module)))
        for module in new:
            self.adopt(module)
        return new

    def fix_names(self) -> None:
        """From now on names stay: with one root they have no prefix."""
        self._several = sum(1 for _ in self.roots()) > 1
        self._prefixes.clear()
        self.refresh()

    def prefix(self, index: int) -> str:
        return f"model{index}." if self._several or index > 0 else ""

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        for index, root in self.roots():
            for name, parameter in _fsdp.named_parameters(root):
                yield self.prefix(index) + plain(name), parameter

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        for index, root in self.roots():
            for name, buffer in root.named_buffers():
                yield self.prefix(index) + plain(name), buffer

    def modes(self) -> Iterator[tuple[str, int]]:
        """Whether each root trains: "training" is 0 in evaluation mode."""
        return ((self.prefix(index) + "training", int(root.training)) for index, root in self.roots())

    def are_readable(self) -> bool:
        """Whether nobody shards them as plain tensors."""
        if self._readable is None:
            self._readable = all(sharding_of(root) is None for _, root in self.roots())
        return self._readable

    def refresh(self) -> list[tuple[str, torch.Tensor]]:
        """Learns the names of parameters anew, for modules may have been exchanged, and returns them."""
        named = list(self.named_parameters())
        self._names = {id(parameter): name for name, parameter in named}
        return named

    def name_of(self, parameter: torch.Tensor) -> str | None:
        return self._names.get(id(parameter))

    def in_order(self, parameters: Iterable[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Parameters with names, in the order of their models; those of no model after them, by their number."""
        order = {identity: place for place, identity in enumerate(self._names)}
        given = list(parameters)
        named = [(self.name_of(p) or f"parameter{i}", p) for i, p in enumerate(given)]
        return sorted(named, key=lambda item: order.get(id(item[1]), len(order)))

    def argument_names(self, caller: torch.nn.Module) -> list[str]:
        """Names of the positional arguments of its forward, as far as it names them."""
        if caller not in self._signatures:
            self._signatures[caller] = _positional(caller)
        return self._signatures[caller]

    def prefix_of_caller(self, caller: torch.nn.Module) -> str:
        if caller not in self._prefixes:
            inside = {id(part) for part in caller.modules()}
            prefixes = [self.prefix(index) for index, root in self.roots() if id(root) in inside]
            self._prefixes[caller] = prefixes[0] if prefixes else ""
        return self._prefixes[caller]


def plain(name: str) -> str:
    """A parameter's name without those of wrappers: torch.compile's, checkpoint_wrapper's and DataParallel's."""
    name = name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")
    return name[len("module."):] if name.startswith("module.") else name


def _modules_of(reference: weakref.ref[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    root = reference()
    modules: Iterator[torch.nn.Module] = root.modules() if root is not None else iter(())
    return modules


def _holds_any(module: torch.nn.Module, wanted: set[int]) -> bool:
    return any(id(parameter) in wanted for parameter in _fsdp.parameters(module))


def _positional(caller: torch.nn.Module) -> list[str]:
    inner: Any = caller.module if type(caller) in _WRAPPERS else getattr(caller, "_orig_mod", caller)
    try:
        parameters = inspect.signature(inner.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
