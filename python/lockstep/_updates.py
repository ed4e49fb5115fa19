"""Updates: gradients, rates, and which updates make up a step."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import torch
from torch.optim import Optimizer

from lockstep import _fsdp, _guard, _optimizers
from lockstep._recording import Updating
from lockstep._reductions import Reductions
from lockstep._turns import Turns


class Updates:
    """Hears of the steps of optimizers."""

    def __init__(self, session: Updating, reductions: Reductions, turns: Turns) -> None:
        self._session, self._reductions, self._turns = session, reductions, turns
        self._updating: list[int] = []  #: an optimizer in its step, and those that it calls

    def begins(self, optimizer: Optimizer, args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """Returns arguments with another closure, where there is one: forward and backward pass run inside."""
        if self._updating and self._updating[0] != id(optimizer):
            self._updating.append(id(optimizer))
            return None
        self._updating = [id(optimizer)]
        session = self._session
        session.optimizers.meet(optimizer)
        if not session.start():
            return None
        session.go_on()
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self._reductions.update_begins(_optimizers.parameters_of(optimizer), has_closure=closure is not None)
        self._take_turn(optimizer)
        if closure is None:
            self._before_update(optimizer)
            return None
        observed = self._observed(closure, optimizer)
        return ((args[0], observed, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": observed})

    def _observed(self, closure: Callable[..., Any], optimizer: Optimizer) -> Callable[..., Any]:
        evaluated = _guard.guarded(self._session, self._evaluated)

        @functools.wraps(closure)
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = closure(*args, **kwargs)
            evaluated(optimizer)
            return result

        return observed

    def _evaluated(self, optimizer: Optimizer) -> None:
        self._session.step.evaluations += 1
        self._before_update(optimizer)

    def _take_turn(self, optimizer: Optimizer) -> None:
        if not self._session.by_hand:
            self._session.go_on()
            self._turns.take(optimizer)
            self._session.stop_if_done()

    def _before_update(self, optimizer: Optimizer) -> None:
        session = self._session
        if not session.records:
            return
        session.step.rates += [rate for rate in session.optimizers.rates(optimizer) if rate not in session.step.rates]
        session.record_hyperparameters(optimizer)
        parameters = _optimizers.parameters_of(optimizer)
        session.step.unreduced += sum(_fsdp.unreduced_in(root, parameters) for _, root in session.models.roots())
        session.step.left += session.gradients.left_in(parameters)
        session.step.clipped_early += session.gradients.clipped_early_in(parameters)
        session.step.reused += session.gradients.used_in(parameters)
        if session.step.clips and not session.step.clipped and session.step.clip_of and not any(
                id(parameter) in session.step.clip_of and parameter.grad is not None for parameter in parameters):
            session.step.clips = 0  # of a part that is not trained now
        session.step.idle_updates += all(parameter.grad is None for parameter in parameters)
        self.gradients(parameters)

    def ends(self, optimizer: Optimizer, skipped: bool = False) -> None:
        if self._updating and self._updating[-1] == id(optimizer):
            self._updating.pop()
        session = self._session
        if not self._updating and session.is_muted and not session.is_preparing:
            session.muted_updates += 1
        if self._updating or not session.records:
            return
        session.gradients.used(_optimizers.parameters_of(optimizer), skipped)
        step = session.step
        step.updated.add(id(optimizer))
        step.skipped = step.skipped or skipped
        self._reductions.update_ends()
        step.evaluations = 0
        if not session.by_hand and all(id(other) in step.updated for other in session.optimizers.expected()):
            session.complete()
        else:
            step.turn_ended = True
            session.keep_alive()

    def skipped(self, optimizer: Optimizer) -> None:
        """A GradScaler found gradients that are not finite, and left the update out."""
        if self._session.records:
            self._reductions.update_begins(_optimizers.parameters_of(optimizer))
            self._take_turn(optimizer)
            self._before_update(optimizer)
            self.ends(optimizer, skipped=True)

    def count(self) -> tuple[int, int]:
        """Another one after each update."""
        return self._session.updates, len(self._session.step.updated)

    def gradients(self, parameters: Iterable[torch.Tensor], then: str | None = None) -> None:
        """Records gradients as they are, unless that is done; `then`: what is about to be done to them."""
        session, parameters = self._session, list(parameters)
        self._reductions.update_begins(parameters)
        if session.wants("gradient") and session.models.are_readable():
            if any(session.models.name_of(parameter) is None for parameter in parameters):
                session.models.refresh()
            session.recorder.tensors("gradient", self._untold(parameters))
        if then is not None:
            session.step.stage.update((id(parameter), then) for parameter in parameters)

    def _untold(self, parameters: list[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        step = self._session.step
        suffix = f"#{step.evaluations - 1}" if step.evaluations > 1 else ""
        for name, parameter in self._session.models.in_order(parameters):
            name = step.stage.get(id(parameter), "") + name + suffix
            if parameter.grad is not None and name not in step.told:
                step.told.add(name)
                step.changed += self._reductions.sharded.is_changed(parameter)
                reduced = self._reductions.changed(parameter)
                if reduced is not None:
                    yield step.unique("gradient", "reduced " + name), reduced
                yield step.unique("gradient", name), parameter.grad
