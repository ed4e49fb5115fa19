"""Gradients of a rank before FSDP2 reduces them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from lockstep import _fsdp, _library
from lockstep._recording import Recording
from lockstep._shards import local


class OwnGradients:
    """Of the parameters' shards, by identity: what this rank alone adds to the gradient of an update.

    Several reductions of one update add up. Whether there are several is known after the first update: until then,
    and where there are, they wait for the update.
    """

    def __init__(self, session: Recording) -> None:
        self._session = session
        self._sums: dict[int, tuple[torch.Tensor, torch.Tensor, Any]] = {}  #: parameter, sum, and its layout in TP
        self._reduced: dict[int, torch.Tensor] = {}  #: those of the backward pass that runs
        self._handed_out: dict[int, str] = {}  #: digests of the shards that FSDP2 made of them
        self._shares = 0  #: of the batch; 0: not asked yet, for it takes a walk through all modules
        self._waits = True
        self._any = self._several = False

    def reduced(self, parameters: list[Any], gradients: list[torch.Tensor]) -> None:
        """They are about to be."""
        if not self._session.wants("gradient.local"):
            return
        self._any = True
        now = []
        for parameter, gradient in zip(parameters, gradients):
            shard, layout = parameter.sharded_param, getattr(parameter, "_tp_spec", None)
            if layout is not None and not self._has_a_share(parameter):
                continue
            self._reduced[id(shard)] = shard
            known = self._sums.get(id(shard))
            if known is not None and id(shard) in self._handed_out and shard.grad is None:  # the script has cleared it
                self._tell([id(shard)])
                known = None
            if known is not None:
                self._several = True
                self._sums[id(shard)] = (shard, known[1].double() + gradient.detach().cpu().double(), layout)
            elif self._waits:
                self._sums[id(shard)] = (shard, gradient.detach().cpu().clone(), layout)
            else:
                self._several = self._several or shard.grad is not None
                now.append((shard, gradient.detach(), layout))
        self._record(now)

    def backward_ends(self) -> None:
        for identity, shard in self._reduced.items():
            if isinstance(shard.grad, torch.Tensor):
                self._handed_out[identity] = _library.digest_of(local(shard.grad))
        self._reduced.clear()

    def is_changed(self, parameter: torch.Tensor) -> bool:
        """Whether the script has changed what FSDP2 handed out. Asked once."""
        before = self._handed_out.pop(id(parameter), None)
        return before is not None and before != _library.digest_of(local(parameter.grad))

    def _has_a_share(self, parameter: Any) -> bool:
        """Whether its parts in tensor parallelism are those of one share of the batch, and the header says which.

        An expert's come from several shares. In a pipeline no mesh spans all ranks.
        """
        if self._shares == 0:
            meshes = [_fsdp.data_mesh_of(root) for _, root in self._session.models.roots()]
            self._shares = max((mesh.size() for mesh in meshes if mesh is not None), default=1)
        whole: bool = parameter._spmd_mesh.size() == dist.get_world_size()
        return whole and bool(parameter.mesh_info.mesh.size() == self._shares)

    def update_begins(self, parameters: Iterable[torch.Tensor]) -> None:
        self._tell([id(parameter) for parameter in parameters])

    def step_ends(self) -> None:
        self._tell(list(self._sums))
        self._handed_out.clear()
        if self._any:
            self._waits = self._several
        self._any = self._several = False

    def _tell(self, identities: list[int]) -> None:
        self._record([self._sums.pop(identity) for identity in identities if identity in self._sums])

    def _record(self, own: list[tuple[torch.Tensor, torch.Tensor, Any]]) -> None:
        if own:
            self._session.recorder.tensors("gradient.local", self._named(own))

    def _named(self, own: list[tuple[torch.Tensor, torch.Tensor, Any]]) -> Iterator[tuple[str, torch.Tensor]]:
        for shard, gradient, layout in own:
            name = self._session.models.name_of(shard)
            if name is not None:
                kept = gradient.to(shard.dtype) if gradient.dtype == torch.float64 else gradient
                yield self._session.step.unique("gradient.local", name), _placed(kept, layout)


def _placed(gradient: torch.Tensor, layout: Any) -> torch.Tensor:
    """As a part of its tensor, where tensor parallelism splits it."""
    if layout is None:
        return gradient
    from torch.distributed.tensor import DTensor

    placed: torch.Tensor = DTensor(gradient, layout, requires_grad=False)
    return placed
