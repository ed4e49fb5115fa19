"""Schedules of learning rates: how often they were stepped. Holds them weakly."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable

from torch.optim.lr_scheduler import LRScheduler

from lockstep._guard import guarded, replace

if TYPE_CHECKING:
    from lockstep._session import Session


class Schedules:
    """In the order in which they were made. Those that others are made of count one by one."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[LRScheduler]] = []

    def made(self, schedule: LRScheduler) -> None:
        self._known.append(weakref.ref(schedule))

    def counts(self) -> list[tuple[str, int]]:
        """Steps that the schedules of each optimizer have taken: "schedule_steps", "schedule_steps.1"."""
        taken: dict[int, int] = {}
        alive = 0
        for reference in self._known:
            schedule = reference()
            steps = getattr(schedule, "last_epoch", None)
            if schedule is not None and isinstance(steps, int):
                alive += 1
                optimizer = id(schedule.optimizer)
                taken[optimizer] = taken.get(optimizer, 0) + steps
        counted = [("schedule_steps" + (f".{index}" if index else ""), steps)
                   for index, steps in enumerate(taken.values())]
        return counted + [("schedules", alive)] * (alive > len(taken))


def install(session: Session) -> None:
    made = guarded(session, session.schedules.made)

    def initialise(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            made(self)

        return __init__

    replace(LRScheduler, "__init__", initialise)
