"""Clipping by torch.nn.utils: its threshold, and gradients before it; those after it are seen at the update."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable

import torch
from torch.nn.utils import clip_grad

from lockstep._guard import guarded, replace
from lockstep._recording import Training
from lockstep._shards import is_partial, is_sharded, local
from lockstep._updates import Updates

_FUNCTIONS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")

#: Arguments that are thresholds, and how the ledger calls them.
_THRESHOLDS = {"max_norm": "clip_norm", "clip_value": "clip_value"}


def install(session: Training, updates: Updates) -> None:
    def clips(parameters: Any) -> None:
        updates.gradients(parameters, then="clipped ")

    def counts(parameters: Any, used: int, result: Any) -> None:
        count = session.gradients.clipped(parameters)
        session.step.clipped += count
        if all(session.models.name_of(parameter) is not None for parameter in parameters):  # no copies
            session.step.clip_of.update(map(id, parameters))
        norm, threshold = result, session.step.thresholds.get("clip_norm")
        is_known = isinstance(norm, torch.Tensor) and not is_sharded(norm) and threshold is not None
        if used and used == count and (not is_known or float(norm) > threshold):  # type: ignore[operator]
            session.gradients.clipped_late += used

    def asks(signature: inspect.Signature, args: Any, kwargs: Any, result: Any) -> bool:
        given = signature.bind(None, *args, **kwargs).arguments
        asked = {name: float(given[argument]) for argument, name in _THRESHOLDS.items() if argument in given}
        if any(map(math.isinf, asked.values())):  # of an infinite one nothing but the norm is wanted
            return False
        step, norm = session.step, given.get("total_norm", result)
        step.clips += not any(norm is known for known in step.norms)  # one norm, for the gradients of several meshes
        step.thresholds.update(asked)
        if isinstance(norm, torch.Tensor) and float(given.get("norm_type", 2)) == 2:
            step.norms.append(norm)
        return True

    def partial(parameters: Any) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
        return [(p, p.grad, local(p.grad)._version) for p in parameters if p.grad is not None and is_partial(p.grad)]

    def compares(before: list[tuple[torch.Tensor, torch.Tensor, int]]) -> None:
        if not before:
            return  # the norm may lie on another device, which would be waited for
        norm, threshold = session.step.norm(), session.step.thresholds.get("clip_norm", math.inf)
        if norm is not None and norm > threshold:
            session.step.unclipped += sum(parameter.grad is gradient and local(gradient)._version == version
                                          for parameter, gradient, version in before)

    before_clipping, asked, counted = guarded(session, clips), guarded(session, asks), guarded(session, counts)
    used_in = guarded(session, session.gradients.used_in)
    partial_in, compared = guarded(session, partial), guarded(session, compares)

    def observed(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(parameters, torch.Tensor):
                parameters = list(parameters)  # it may be a generator, which gives them once
            given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
            before_clipping(given)
            used, sums = used_in(given), partial_in(given)
            result = original(parameters, *args, **kwargs)
            if asked(signature, args, kwargs, result):
                counted(given, used or 0, result)
                compared(sums or [])
            return result

        return clip

    for name in _FUNCTIONS:
        if hasattr(clip_grad, name):
            replace(clip_grad, name, observed)
            if hasattr(torch.nn.utils, name):
                setattr(torch.nn.utils, name, getattr(clip_grad, name))
        elif hasattr(torch.nn.utils, name):  # under another name in the module that defines it
            replace(torch.nn.utils, name, observed)
