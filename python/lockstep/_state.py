"""What is there after an update: optimizers, weights and buffers."""

from __future__ import annotations

from typing import Any

import torch

from lockstep import _library, _optimizers
from lockstep._recording import Recording


def record_state(session: Recording) -> None:
    """Optimizer, weights and buffers, as far as this step keeps them."""
    if not any(session.wants(channel) for channel in ("optimizer", "weight", "buffer")):
        return
    models, recorder = session.models, session.recorder
    named = models.refresh()
    if not models.are_readable():
        return  # the header's "unseen" says why
    if session.wants("optimizer"):
        _record_optimizers(session)
    if session.wants("weight"):
        recorder.tensors("weight", named + _loose(session))
    if session.wants("buffer"):
        recorder.tensors("buffer", models.named_buffers())


def _loose(session: Recording) -> list[tuple[str, torch.Tensor]]:
    """Parameters that optimizers hold of no model."""
    models, named = session.models, []
    for optimizer in session.optimizers.outermost():
        loose = [p for p in _optimizers.parameters_of(optimizer) if models.name_of(p) is None]
        if loose:
            prefix = session.optimizers.prefix(optimizer)
            named += [(prefix + name, p) for name, p in _names_of(session, optimizer) if models.name_of(p) is None]
    return named


def _names_of(session: Recording, optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    return session.models.in_order(_optimizers.parameters_of(optimizer))


def _record_optimizers(session: Recording) -> None:
    for optimizer in session.optimizers.with_whole_state():
        names: dict[int, str] = {}
        for name, parameter in _names_of(session, optimizer):
            names[id(parameter)] = name
        _record_values(session.recorder, list(_optimizers.state_of(optimizer, names)))


def _record_values(recorder: _library.Recorder, named: list[tuple[str, Any]]) -> None:
    recorder.tensors("optimizer", ((n, v) for n, v in named if isinstance(v, torch.Tensor)))
    for name, value in named:
        if isinstance(value, (bool, int)):
            recorder.integer("optimizer", name, int(value))
        elif isinstance(value, float):
            recorder.number("optimizer", name, value)
