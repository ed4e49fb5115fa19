"""Tensors of which this rank holds a part: DTensors, as FSDP2 and tensor parallel make them. Never a collective."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, replace
from typing import Any

import torch


@dataclass(frozen=True)
class Shard:
    """Where the part lies in its tensor, and which rank this is among those that share it."""

    whole: tuple[int, ...]       #: shape of the whole tensor
    offset: tuple[int, ...]      #: index of the part's first element
    mesh: str                    #: "dp_shard=2,tp=2"
    placements: str              #: "S(0),R"
    coordinate: tuple[int, ...]  #: in the mesh

    def as_real(self) -> Shard:
        """The place of complex numbers that are written as two real ones each."""
        return replace(self, whole=(*self.whole, 2), offset=(*self.offset, 0))


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it says which part of a tensor it is."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def is_localized(tensor: torch.Tensor) -> bool:
    """Whether DDP made it of the part of a DTensor: its gradients and states do not say so."""
    return hasattr(tensor, "_st_info")


def mesh_of(tensor: torch.Tensor) -> Any | None:
    """The ranks that share it."""
    spec: Any = tensor if is_sharded(tensor) else getattr(tensor, "_st_info", None)
    return getattr(spec, "device_mesh", None)


def is_partial(tensor: torch.Tensor) -> bool:
    """Whether it is a term of a sum over ranks."""
    return is_sharded(tensor) and any(placement.is_partial() for placement in tensor.placements)


def part_of(tensor: torch.Tensor) -> tuple[torch.Tensor, Shard] | None:
    """The elements that this rank holds, and where they lie; nothing where they are terms of a sum, or no one box."""
    if not is_sharded(tensor):
        return None
    sharded: Any = tensor
    local: torch.Tensor = sharded._local_tensor
    shard = _place(tuple(sharded.shape), sharded.device_mesh, tuple(sharded.placements), tuple(local.shape))
    return None if shard is None or local.device.type == "meta" else (local, shard)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What lies in this rank's memory: of a DTensor its part. Whoever reads a whole DTensor calls all ranks."""
    return tensor._local_tensor if is_sharded(tensor) else tensor


def class_of(module: torch.nn.Module) -> type:
    """Its class as the script names it: FSDP2 makes one of its own before it."""
    kind = type(module)
    is_of_fsdp = any(base.__name__ == "FSDPModule" for base in kind.__bases__)
    return next((base for base in kind.__bases__ if base.__name__ != "FSDPModule"), kind) if is_of_fsdp else kind


@functools.lru_cache(maxsize=65536)
def _place(shape: tuple[int, ...], mesh: Any, placements: tuple[Any, ...], held: tuple[int, ...]) -> Shard | None:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    coordinate = mesh.get_coordinate()
    if coordinate is None or any(placement.is_partial() for placement in placements):
        return None
    extents, offset = compute_local_shape_and_global_offset(shape, mesh, placements)
    if tuple(extents) != held:
        return None
    if 0 in held:  # a rank without elements is nowhere
        offset = tuple(0 if extent == 0 else index for extent, index in zip(held, offset))
    names = mesh.mesh_dim_names or [f"dim{i}" for i in range(mesh.ndim)]
    return Shard(shape, tuple(offset), ",".join(f"{name}={size}" for name, size in zip(names, mesh.shape)),
                 ",".join(map(_text_of, placements)), tuple(coordinate))


def _text_of(placement: Any) -> str:
    return f"S({placement.dim})" if hasattr(placement, "dim") else "R"
