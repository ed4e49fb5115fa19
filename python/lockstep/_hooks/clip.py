"""Clipping by torch.nn.utils: gradients before it; those after it are seen at the update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import torch
from torch.nn.utils import clip_grad

from lockstep._guard import guarded, replace
from lockstep._updates import Updates

if TYPE_CHECKING:
    from lockstep._session import Session

_FUNCTIONS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")


def install(session: "Session", updates: Updates) -> None:
    def clips(parameters: Any) -> None:
        updates.gradients(parameters, then="clipped ")

    before_clipping = guarded(session, clips)

    def observed(original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(parameters, torch.Tensor):
                parameters = list(parameters)  # it may be a generator, which gives them once
            before_clipping([parameters] if isinstance(parameters, torch.Tensor) else parameters)
            return original(parameters, *args, **kwargs)

        return clip

    for name in _FUNCTIONS:
        if hasattr(clip_grad, name):
            replace(clip_grad, name, observed)
            if hasattr(torch.nn.utils, name):
                setattr(torch.nn.utils, name, getattr(clip_grad, name))
