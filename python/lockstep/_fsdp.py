"""FSDP2 (`fully_shard`): a rank's own gradients, and what of its parameters an update must find done.

Never a collective. Where another version of torch keeps a fact elsewhere, it is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lockstep._recording import Recording


def groups_in(root: torch.nn.Module) -> Iterator[Any]:
    """Parameters that FSDP2 gathers and reduces together (FSDPParamGroup)."""
    for part in root.modules():
        state = getattr(part, "_get_fsdp_state", None)
        group = getattr(state(), "_fsdp_param_group", None) if callable(state) else None
        if group is not None:
            yield group


def data_mesh_of(root: torch.nn.Module) -> Any | None:
    """The mesh of the ranks that split the batch: the largest, for experts may be spread over a part of it."""
    meshes = [group.mesh_info.mesh for group in groups_in(root)]
    return max(meshes, key=lambda mesh: mesh.size(), default=None)


def named_parameters(root: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters as optimizers hold them: between forward and backward pass FSDP2 gives a module whole ones."""
    kept = {id(getattr(parameter, name)): parameter.sharded_param for group in groups_in(root)
            for parameter in group.fsdp_params for name in ("_unsharded_param", "_sharded_post_forward_param")
            if getattr(parameter, name, None) is not None}
    for name, parameter in root.named_parameters():
        yield name, kept.get(id(parameter), parameter)


def parameters(root: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter for _, parameter in named_parameters(root)]


def unreduced_in(root: torch.nn.Module, updated: Iterable[torch.Tensor]) -> int:
    """How many of these have a gradient that some ranks have not reduced."""
    wanted = {id(parameter) for parameter in updated}
    return sum(id(parameter.sharded_param) in wanted and (_is_left(parameter) or _is_partial(group))
               for group in groups_in(root) for parameter in group.fsdp_params)


def stale_in(root: torch.nn.Module) -> int:
    """How many parameters are gathered, and are not what the ranks hold any more."""
    return sum(_is_gathered(parameter) and _is_stale(parameter)
               for group in groups_in(root) for parameter in group.fsdp_params)


def policy_of(groups: list[Any]) -> dict[str, Any]:
    """What computing and reducing are told, where all are told the same: dtypes, and what divides a sum."""
    told: dict[str, set[Any]] = {"param_dtype": set(), "reduce_dtype": set(), "divide_factor": set()}
    for group in groups:
        told["divide_factor"].add(getattr(group, "gradient_divide_factor", None))
        for parameter in group.fsdp_params:
            policy = parameter.mp_policy
            computes = policy.param_dtype or parameter.sharded_param.dtype
            told["param_dtype"].add(str(computes)[len("torch."):])
            told["reduce_dtype"].add(str(policy.reduce_dtype or computes)[len("torch."):])
    if any(getattr(group, "_all_reduce_hook", None) is not None for group in groups):
        told["hook"] = {True}
    facts = {name: values.pop() if len(values) == 1 else "several" for name, values in told.items()}
    return {name: value for name, value in facts.items() if value is not None}


class OwnGradients:
    """Of the parameters' shards, by identity: what this rank alone adds to the gradient of an update.

    Several reductions of one update add up. Whether there are several is known after the first update: until then,
    and where there are, they wait for the update.
    """

    def __init__(self, session: Recording) -> None:
        self._session = session
        self._sums: dict[int, tuple[torch.Tensor, torch.Tensor, Any]] = {}  #: parameter, sum, and its layout in TP
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
            if layout is not None and parameter.mesh_info.mesh.size() < self._shares():
                continue  # of an expert: it comes from the batches of several shares
            known = self._sums.get(id(shard))
            if known is not None and shard.grad is None:  # the script has cleared what was reduced before
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

    def _shares(self) -> int:
        meshes = [data_mesh_of(root) for _, root in self._session.models.roots()]
        return max((mesh.size() for mesh in meshes if mesh is not None), default=1)

    def update_begins(self, parameters: Iterable[torch.Tensor]) -> None:
        self._tell([id(parameter) for parameter in parameters])

    def step_ends(self) -> None:
        self._tell(list(self._sums))
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


def _is_gathered(parameter: Any) -> bool:
    return getattr(getattr(parameter, "sharded_state", None), "name", "") == "UNSHARDED"


def _is_left(parameter: Any) -> bool:
    if getattr(parameter, "unsharded_accumulated_grad", None) is not None:
        return True
    gathered = getattr(parameter, "_unsharded_param", None)
    return gathered is not None and gathered.grad is not None


def _is_partial(group: Any) -> bool:
    """Whether it has sums over shards' ranks that were not added up over replicas."""
    return getattr(group, "_partial_reduce_output", None) is not None


def _is_stale(parameter: Any) -> bool:
    from lockstep._shards import local

    ranks, rank = parameter.mesh_info.shard_mesh_size, parameter.mesh_info.shard_mesh_rank
    gathered = local(parameter._unsharded_param.detach())
    parts = torch.chunk(gathered, ranks, dim=parameter.fsdp_placement.dim)
    held = local(parameter.sharded_param.detach())
    if rank >= len(parts) or held.device != gathered.device or parts[rank].shape != held.shape:
        return False
    return not torch.equal(parts[rank], held.to(gathered.dtype))
