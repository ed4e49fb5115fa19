"""FSDP2 (`fully_shard`): its parameters, what it was told, and what an update must find done.

Never a collective. Where another version of torch keeps a fact elsewhere, it is not told.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from lockstep._shards import is_sharded, local, mesh_of


def groups_in(root: torch.nn.Module) -> Iterator[Any]:
    """Parameters that FSDP2 gathers and reduces together (FSDPParamGroup)."""
    if "torch.distributed.fsdp" not in sys.modules:
        return
    for part in root.modules():
        state = getattr(part, "_get_fsdp_state", None)
        group = getattr(state(), "_fsdp_param_group", None) if callable(state) else None
        if group is not None:
            yield group


def data_mesh_of(root: torch.nn.Module) -> Any | None:
    """The mesh of the ranks that split the batch: the largest, for experts may be spread over a part of it."""
    meshes = [group.mesh_info.mesh for group in groups_in(root)]
    return max(meshes, key=lambda mesh: mesh.size(), default=None)


def data_parallel(root: torch.nn.Module, world_size: int) -> tuple[int, int] | None:
    """Which of the ranks that split the batch this one is, and how many there are; nothing where that is not known.

    FSDP2 says it, for all ranks where a mesh of some parameter spans them. Where tensors are split without it, the
    ranks of one mesh compute one batch together.
    """
    meshes = [mesh for mesh in map(mesh_of, parameters(root)) if mesh is not None]
    mesh = data_mesh_of(root)
    if all(mesh.size() != world_size for mesh in meshes):
        # FSDP2's ranks have batches of their own, and so may ranks outside of its mesh.
        return _beside(meshes, world_size) if mesh is None and meshes else None
    if mesh is not None:
        return _number_in(mesh), mesh.size()
    return (0, 1) if all(mesh.size() == world_size for mesh in meshes) else None


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


def split_of(groups: list[Any]) -> dict[str, int]:
    """Over how many ranks FSDP2 spreads replicas and shards."""
    sizes = {"replicate": "replicate_mesh_size", "shard": "shard_mesh_size"}
    return {kind: max((getattr(group.mesh_info, size, 1) for group in groups), default=1)
            for kind, size in sizes.items()}


def tensor_split_of(root: torch.nn.Module, groups: list[Any]) -> int:
    """Over how many ranks parameters are split without FSDP2, as by tensor parallelism."""
    specs = {id(parameter.sharded_param): getattr(parameter, "_tp_spec", None)
             for group in groups for parameter in group.fsdp_params}
    split = 1
    for parameter in parameters(root):
        localized = getattr(parameter, "_st_info", None)
        layout: Any = specs.get(id(parameter), parameter if is_sharded(parameter) else localized)
        if layout is None:
            continue
        sizes = (size for size, placement in zip(layout.device_mesh.shape, layout.placements)
                 if hasattr(placement, "dim"))
        split = max(split, math.prod(sizes))
    return split


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
    if any(getattr(group, "_all_reduce_hook", None) is not None or
           any(getattr(p.sharded_param, "_post_accumulate_grad_hooks", None) for p in group.fsdp_params)
           for group in groups):
        told["hook"] = {True}
    facts = {name: values.pop() if len(values) == 1 else "several" for name, values in told.items()}
    return {name: value for name, value in facts.items() if value is not None}


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
    ranks, rank = parameter.mesh_info.shard_mesh_size, parameter.mesh_info.shard_mesh_rank
    gathered = local(parameter._unsharded_param.detach())
    parts = torch.chunk(gathered, ranks, dim=parameter.fsdp_placement.dim)
    held = local(parameter.sharded_param.detach())
    if hasattr(held, "fsdp_pre_all_gather") or type(gathered) not in (torch.Tensor, torch.nn.Parameter):
        return False  # it gathers something of its own
    if rank >= len(parts) or held.device != gathered.device or parts[rank].shape != held.shape:
        return False
    return not torch.equal(parts[rank], held.to(gathered.dtype))


def _beside(meshes: list[Any], world_size: int) -> tuple[int, int] | None:
    """Which this mesh is among those that split tensors alike, where all are cut out of one mesh of all ranks."""
    mesh = meshes[0]
    whole = getattr(mesh, "_get_root_mesh", lambda: mesh)()
    if any(other != mesh for other in meshes) or whole.size() != world_size or not whole.mesh_dim_names:
        return None
    number, count = 0, 1
    for name, extent, index in zip(whole.mesh_dim_names, whole.shape, whole.get_coordinate()):
        if name not in (mesh.mesh_dim_names or ()):
            number, count = number * extent + index, count * extent
    return (number, count) if count * mesh.size() == world_size else None


def _number_in(mesh: Any) -> int:
    number = 0
    for extent, index in zip(mesh.shape, mesh.get_coordinate()):
        number = number * extent + index
    return number
