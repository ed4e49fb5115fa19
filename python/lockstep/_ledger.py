"""What is counted of a step: rates, denominators and counters; and of calls, which explains and is not compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Tuple, Union

if TYPE_CHECKING:
    from lockstep._session import Session


def record(session: "Session") -> None:
    for name, value in _entries(session):
        if isinstance(value, float):
            session.recorder.number("ledger", name, value)
        else:
            session.recorder.integer("ledger", name, value)


def _entries(session: "Session") -> Iterator[Tuple[str, Union[float, int]]]:
    step, scaler, batch = session.step, session.scaler(), session.last_batch
    yield from step.rates
    yield from step.denominators.items()
    yield "micro_batches", step.backwards
    yield "samples_taken", session.taken
    if scaler is not None:
        yield "loss_scale", float(scaler.get_scale())
        yield "skipped", session.skipped
    yield "updates", session.updates
    if batch is not None and batch.epoch is not None:
        yield "epoch", batch.epoch
    if batch is not None and batch.passes is not None:
        yield "passes", batch.passes
    for name, value in _calls(session):
        yield "seen." + name, value


def _calls(session: "Session") -> Iterator[Tuple[str, Union[float, int]]]:
    """Scripts that compute the same may call otherwise: no difference by itself (harness/trace/format.md)."""
    step = session.step
    yield from step.thresholds.items()
    if step.clips:
        yield "clips", step.clips
    yield from session.schedules.counts()
    yield from session.models.modes()
    if session.batches.any_guessed:
        yield "waiting", session.batches.waiting
