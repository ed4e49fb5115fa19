"""DistributedDataParallel: names, inputs, and gradients before the reduction.

Never a communication hook: it changes the bits of the reduction.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from torch.nn.parallel import DistributedDataParallel

from lockstep._guard import guarded, replace
from lockstep._recording import Wrapping
from lockstep._reductions import Reductions


def install(session: Wrapping, reductions: Reductions) -> None:
    accumulated = guarded(session, reductions.accumulated)
    listens_to_gradients = "gradient.local" in session.settings.channels

    def listen(wrapper: DistributedDataParallel) -> None:
        session.ddp_made(wrapper)
        if listens_to_gradients:
            hook = functools.partial(accumulated, reductions.made(wrapper))
            for parameter in wrapper.module.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(hook)

    made = guarded(session, listen)
    arguments = guarded(session, session.controls.ddp_arguments)

    def initialise(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
            asked = arguments(original, (self, *args), kwargs)
            args, kwargs = asked if asked is not None else ((self, *args), kwargs)
            original(*args, **kwargs)
            made(self)

        return __init__

    replace(DistributedDataParallel, "__init__", initialise)
