"""Turns of optimizers: which updates make up a step."""

from __future__ import annotations

from torch.optim import Optimizer

from lockstep._recording import Stepping
from lockstep._step import Step


class Turns:
    """A step is one turn: it ends once all optimizers have updated, or where one comes again before the others did.

    After such an early end the optimizers of that turn alone end steps. Whether a pass after an incomplete turn belongs
    to it, or begins the next step, is known at the next update: until then its records are held back.
    """

    def __init__(self, session: Stepping) -> None:
        self._session = session
        self._open: Step | None = None  #: the incomplete turn, while the session's step is what follows it

    @property
    def updated(self) -> set[int]:
        """The optimizers of the turn, by identity."""
        return (self._open or self._session.step).updated

    def follow(self) -> None:
        """Something of the next update happens, after an incomplete turn."""
        session = self._session
        session.before_end()
        self._open, session.step = session.step, session.step.followed()
        session.recorder.hold(True)

    def take(self, optimizer: Optimizer) -> None:
        """An optimizer is about to update."""
        if id(optimizer) in self.updated:
            self.end()
        else:
            self.join()

    def join(self) -> None:
        """What followed the turn is a part of it."""
        session = self._session
        if self._open is not None:
            self._open.absorb(session.step)
            session.step, self._open = self._open, None
            session.recorder.release({})

    def end(self) -> None:
        """The turn is a step: what followed it begins the next one."""
        session = self._session
        if self._open is None:
            return
        following, session.step, self._open = session.step, self._open, None
        session.optimizers.lead(session.step.updated)
        session.recorder.hold(False)
        session.complete()
        session.recorder.end_step()
        session.begin(session.updates)
        session.step = following
        session.recorder.release(following.own_names)
        following.names_before = {}  # from here on it names its records as any step does
