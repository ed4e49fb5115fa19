"""Updates: torch's own hooks around every optimizer's step."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from lockstep._guard import Failing, guarded, replace
from lockstep._updates import Updates


def install(session: Failing, meet: Callable[[torch.optim.Optimizer], None], updates: Updates) -> None:
    made, ends = guarded(session, meet), guarded(session, updates.ends)

    def initialise(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            made(self)

        return __init__

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        ends(optimizer)

    replace(torch.optim.Optimizer, "__init__", initialise)
    register_optimizer_step_pre_hook(guarded(session, updates.begins))
    register_optimizer_step_post_hook(after)
