"""Updates: torch's own hooks around every optimizer's step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from lockstep._guard import guarded, replace
from lockstep._updates import Updates

if TYPE_CHECKING:
    from lockstep._session import Session


def install(session: Session, updates: Updates) -> None:
    made = guarded(session, session.optimizer_made)
    ends = guarded(session, updates.ends)

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
