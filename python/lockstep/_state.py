"""What is there after an update: generators, optimizers, weights and buffers."""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from lockstep import _library, _models, _optimizers

if TYPE_CHECKING:
    from lockstep._session import Session


class Generators:
    """Generators are recorded once somebody seeds them or draws: untouched, each process has another state."""

    def __init__(self, cpu_at_import: torch.Tensor) -> None:
        self._first = dict(_states_outside_torch())
        self._cpu_at_import = cpu_at_import
        self._cpu_moved = False

    def record(self, recorder: _library.Recorder) -> None:
        cpu = cpu_state()
        self._cpu_moved = self._cpu_moved or not torch.equal(cpu, self._cpu_at_import)
        if self._cpu_moved:
            recorder.tensors("rng", [("cpu", cpu)])
        for name, state in _states_outside_torch():
            if self._first.setdefault(name, state) != state:
                self._first[name] = b""  # moved: recorded from now on
                recorder.raw("rng", name, state)
        if torch.cuda.is_initialized():  # never is_available(): it may start the driver, which no fork survives
            recorder.tensors("rng", [("cuda", torch.cuda.get_rng_state())])


def cpu_state() -> torch.Tensor:
    """Of torch's default generator, asked itself: torch.get_rng_state() may be replaced by a device's context."""
    return torch.default_generator.get_state()


def _states_outside_torch() -> Iterator[tuple[str, bytes]]:
    _, words, gauss = random.getstate()
    yield "python", array("q", words).tobytes() + struct.pack("<d", gauss or 0.0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        _, keys, position, _, gauss = numpy_random.get_state()
        yield "numpy", keys.tobytes() + struct.pack("<qd", position, gauss)


def record_state(session: Session) -> None:
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
        recorder.tensors("weight", _models.readable(named + _loose(session)))
    if session.wants("buffer"):
        recorder.tensors("buffer", _models.readable(models.named_buffers()))


def _loose(session: Session) -> list[tuple[str, torch.Tensor]]:
    """Parameters that optimizers hold of no model."""
    models, named = session.models, []
    for optimizer in session.optimizers.outermost():
        loose = [p for p in _optimizers.parameters_of(optimizer) if models.name_of(p) is None]
        if loose:
            prefix = session.optimizers.prefix(optimizer)
            named += [(prefix + name, p) for name, p in _names_of(session, optimizer) if models.name_of(p) is None]
    return named


def _names_of(session: Session, optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    return session.models.in_order(_optimizers.parameters_of(optimizer))


def _record_optimizers(session: Session) -> None:
    for optimizer in session.optimizers.with_whole_state():
        names: dict[int, str] = {}
        for name, parameter in _names_of(session, optimizer):
            names[id(parameter)] = name
        _record_values(session.recorder, list(_optimizers.state_of(optimizer, names)))


def _record_values(recorder: _library.Recorder, named: list[tuple[str, Any]]) -> None:
    recorder.tensors("optimizer", _models.readable((n, v) for n, v in named if isinstance(v, torch.Tensor)))
    for name, value in named:
        if isinstance(value, (bool, int)):
            recorder.integer("optimizer", name, int(value))
        elif isinstance(value, float):
            recorder.number("optimizer", name, value)
