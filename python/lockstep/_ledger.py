"""What is counted of a step: rates, denominators and counters; and of calls, which explains and is not compared."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep._recording import Counting
from lockstep._step import Step


def record(session: Counting) -> None:
    for name, value in _entries(session):
        if isinstance(value, float):
            session.recorder.number("ledger", name, value)
        else:
            session.recorder.integer("ledger", name, value)


def _entries(session: Counting) -> Iterator[tuple[str, float | int]]:
    step, scaler = session.step, session.scaler()
    yield from step.rates
    yield from step.denominators.items()
    yield "micro_batches", step.backwards
    if not step.is_rest and "samples" in session.settings.channels:  # else they are not counted
        yield "samples_taken", session.taken
    if scaler is not None:
        yield "loss_scale", float(scaler.get_scale())
        yield "skipped", session.skipped
    if not step.is_rest:
        yield "updates", session.updates
        yield from _epochs(step)
    for name, value in _calls(session):
        yield "seen." + name, value


def _epochs(step: Step) -> Iterator[tuple[str, int]]:
    if step.batch is not None and step.batch.epoch is not None:
        yield "epoch", step.batch.epoch
    if step.batch is not None and step.batch.passes is not None:
        yield "passes", step.batch.passes


def _calls(session: Counting) -> Iterator[tuple[str, float | int]]:
    """Scripts that compute the same may call otherwise: no difference by itself (harness/trace/format.md)."""
    step = session.step
    yield from step.thresholds.items()
    yield from step.factors.items()
    if step.clips:
        yield "clips", step.clips
        yield "clipped", step.clipped
        norm = step.norm()
        if step.clips == 1 and norm is not None:
            yield "total_norm", norm
    for name in ("clipped_early", "unclipped", "left", "reused", "unreduced_passes", "unreduced", "changed", "stale",
                 "idle_updates"):
        if getattr(step, name):
            yield name, getattr(step, name)
    if step.reduced_passes > 1:
        yield "reduced_passes", step.reduced_passes
    if session.gradients.clipped_late:
        yield "clipped_late", session.gradients.clipped_late
        session.gradients.clipped_late = 0
    yield from session.schedules.counts()
    yield from session.models.modes()
    if session.batches.any_guessed:
        yield "waiting", session.batches.waiting
