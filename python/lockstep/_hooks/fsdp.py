"""FSDP2: each rank's gradients as they go into a reduction."""

from __future__ import annotations

from typing import Any, Callable

from lockstep._guard import Failing, guarded, replace
from lockstep._imports import after_import
from lockstep._own_gradients import OwnGradients


def install(session: Failing, own: OwnGradients) -> None:
    reduced = guarded(session, own.reduced)

    def observed(original: Callable[..., Any]) -> Callable[..., Any]:
        def foreach_reduce(fsdp_params: Any, unsharded_grads: Any, *args: Any, **kwargs: Any) -> Any:
            reduced(fsdp_params, unsharded_grads)
            return original(fsdp_params, unsharded_grads, *args, **kwargs)

        return foreach_reduce

    def listen(module: Any) -> None:
        if hasattr(module, "foreach_reduce"):
            replace(module, "foreach_reduce", observed)

    after_import("torch.distributed.fsdp._fully_shard._fsdp_param_group", listen)
