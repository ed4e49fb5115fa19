"""Schedules of learning rates: how often they were stepped. Holds them weakly.

Outermost calls count: a schedule that others are made of is stepped by them, and some step once when they are made.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Callable

from torch.optim.lr_scheduler import LRScheduler

from lockstep._guard import Failing, guarded, replace


class Taken:
    """Steps of one schedule."""

    def __init__(self, schedule: LRScheduler) -> None:
        self.schedule = weakref.ref(schedule)
        self.calls = 0
        self.before: int | None = None  #: its own count when it was first asked, of a run that goes on

    def steps(self) -> int:
        if self.before is None:
            own = getattr(self.schedule(), "last_epoch", 0)
            self.before = max(own - self.calls, 0) if isinstance(own, int) else 0
        return self.before + self.calls


class Schedules:
    """In the order in which they were made."""

    def __init__(self) -> None:
        self._known: dict[int, Taken] = {}  #: by identity
        self._inside: set[int] = set()  #: those that another one stepped
        self.constructors = self.steps = 0  #: that run

    def made(self, schedule: LRScheduler) -> None:
        if self._of(schedule) is None:
            self._known[id(schedule)] = Taken(schedule)

    def stepped(self, schedule: LRScheduler) -> None:
        """Called within the step."""
        self.made(schedule)
        if self.constructors == 0 and self.steps == 1:
            self._known[id(schedule)].calls += 1
        elif self.constructors == 0:
            self._inside.add(id(schedule))

    def _of(self, schedule: LRScheduler) -> Taken | None:
        known = self._known.get(id(schedule))
        return known if known is not None and known.schedule() is schedule else None

    def _outermost(self) -> Iterator[tuple[LRScheduler, Taken]]:
        alive = [(taken.schedule(), taken) for taken in self._known.values()]
        parts = {id(part) for schedule, _ in alive for part in getattr(schedule, "_schedulers", ())}
        for schedule, taken in alive:
            if schedule is not None and id(schedule) not in parts and (taken.calls or id(schedule) not in self._inside):
                yield schedule, taken

    def counts(self) -> list[tuple[str, int]]:
        """Steps that the schedules of each optimizer have taken: "schedule_steps", "schedule_steps.1"."""
        taken: dict[int, int] = {}
        schedules = 0
        for schedule, steps in self._outermost():
            schedules += 1
            optimizer = id(getattr(schedule, "optimizer", None))
            taken[optimizer] = taken.get(optimizer, 0) + steps.steps()
        counted = [("schedule_steps" + (f".{index}" if index else ""), steps)
                   for index, steps in enumerate(taken.values())]
        return counted + [("schedules", schedules)] * (schedules > len(taken))


def install(session: Failing, schedules: Schedules) -> None:
    made, stepped = guarded(session, schedules.made), guarded(session, schedules.stepped)

    def initialise(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
            schedules.constructors += 1
            try:
                original(self, *args, **kwargs)
            finally:
                schedules.constructors -= 1
            made(self)

        return __init__

    def count(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: LRScheduler, *args: Any, **kwargs: Any) -> Any:
            schedules.steps += 1
            try:
                stepped(self)
                return original(self, *args, **kwargs)
            finally:
                schedules.steps -= 1

        return step

    def observe(kind: type) -> None:
        for name, make in (("__init__", initialise), ("step", count)):
            if name in vars(kind):
                replace(kind, name, make)

    def observe_all(kind: type) -> None:
        observe(kind)
        for derived in kind.__subclasses__():
            observe_all(derived)

    observe_all(LRScheduler)
    _on_subclass(LRScheduler, guarded(session, observe))


def _on_subclass(kind: Any, tell: Callable[[type], Any]) -> None:
    """Tells of each class that is derived from now on."""

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        super(kind, cls).__init_subclass__(**kwargs)
        tell(cls)

    kind.__init_subclass__ = classmethod(__init_subclass__)
