"""GradScaler: losses before it scales them, gradients before and after it unscales them, and updates it leaves out."""

from __future__ import annotations

from typing import Any, Callable

from torch.amp.grad_scaler import GradScaler

from lockstep import _optimizers
from lockstep._guard import Failing, guarded, replace
from lockstep._passes import Passes
from lockstep._updates import Updates


def install(session: Failing, passes: Passes, updates: Updates) -> None:
    scaled = guarded(session, passes.scaled)
    skipped = guarded(session, updates.skipped)
    count = guarded(session, updates.count)

    def unscales(optimizer: Any) -> None:
        updates.gradients(_optimizers.parameters_of(optimizer), then="unscaled ")

    before_unscaling = guarded(session, unscales)

    def scale(original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(self: GradScaler, outputs: Any) -> Any:
            result = original(self, outputs)
            scaled(self, outputs, result)
            return result

        return scale

    def unscale_(original: Callable[..., None]) -> Callable[..., None]:
        def unscale_(self: GradScaler, optimizer: Any) -> None:
            if self.is_enabled():
                before_unscaling(optimizer)
            original(self, optimizer)

        return unscale_

    def step(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: GradScaler, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = count()
            result = original(self, optimizer, *args, **kwargs)
            if self.is_enabled() and before == count():
                skipped(optimizer)
            return result

        return step

    replace(GradScaler, "scale", scale)
    replace(GradScaler, "unscale_", unscale_)
    replace(GradScaler, "step", step)
