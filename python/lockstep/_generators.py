"""Generators of random numbers: their states, and whether the script seeds them."""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Any

import torch

from lockstep._library import Recorder


class Generators:
    """Generators are recorded once somebody seeds them or draws: untouched, each process has another state."""

    def __init__(self, cpu_at_import: torch.Tensor) -> None:
        self._first = dict(_states_outside_torch())
        self._cpu_at_import = cpu_at_import
        self._cpu_moved = False

    def record(self, recorder: Recorder) -> None:
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


class Seeds:
    """Seeding of each generator, by the name of its record: "set", "late" (something was drawn before) or "never"."""

    def __init__(self) -> None:
        self._cpu_at_import = cpu_state()
        self._seed_at_import = torch.default_generator.initial_seed()
        self._said: dict[str, str] = {}

    def listens_to(self, name: str) -> None:
        self._said.setdefault(name, "never")

    def sets(self, name: str, seed: Any | None) -> None:
        """`seed`: None: from the clock, or from the system's random numbers."""
        if seed is None:
            self._said[name] = "never"
        elif name == "cpu" and self._said.get(name) == "never" and self._is_drawn_from():
            self._said[name] = "late"
        elif self._said.get(name) != "late":
            self._said[name] = "set"

    def said(self) -> dict[str, str]:
        """The generator of torch has other ways to be seeded, which show in its seed."""
        said = dict(self._said)
        if said.get("cpu") == "never" and torch.default_generator.initial_seed() != self._seed_at_import:
            said.pop("cpu")
        return said

    def _is_drawn_from(self) -> bool:
        return not torch.equal(cpu_state(), self._cpu_at_import)
