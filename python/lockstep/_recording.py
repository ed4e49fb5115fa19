"""What parts and hooks know of the session: of each, no more than it uses. So no part imports who owns it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable, Protocol

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep._batches import Batch, Batches, NamedTensors
from lockstep._controls import Controls
from lockstep._endings import Ending
from lockstep._generators import Seeds
from lockstep._gradients import Gradients
from lockstep._guard import Failing
from lockstep._hooks.schedule import Schedules
from lockstep._library import Recorder
from lockstep._models import Models
from lockstep._modules import Modules
from lockstep._optimizers import Optimizers
from lockstep._settings import Settings
from lockstep._step import Step


class Recording(Protocol):
    """The step that is recorded, and the names of what is in it."""

    models: Models
    optimizers: Optimizers
    step: Step

    @property
    def recorder(self) -> Recorder: ...
    def wants(self, channel: str) -> bool: ...


class Stepping(Recording, Protocol):
    """Whose steps end with turns."""

    updates: int  #: that are done

    def begin(self, step: int) -> None: ...
    def before_end(self) -> None: ...
    def complete(self) -> None: ...


class Training(Recording, Failing, Protocol):
    """A training as its passes and updates move it on."""

    gradients: Gradients

    @property
    def records(self) -> bool: ...
    @property
    def is_muted(self) -> bool: ...
    def start(self) -> bool: ...
    def go_on(self) -> None: ...
    def stop_if_done(self) -> None: ...


class Passing(Training, Protocol):
    """What forward and backward passes tell."""

    settings: Settings
    batches: Batches
    controls: Controls
    rank: int

    def take(self, batches: list[Batch], inputs: NamedTensors) -> None: ...
    def scaler_used(self, scaler: Any) -> None: ...


class Updating(Training, Protocol):
    """What updates tell."""

    updates: int
    muted_updates: int
    by_hand: bool

    @property
    def is_preparing(self) -> bool: ...
    def complete(self) -> None: ...
    def keep_alive(self) -> None: ...
    def record_hyperparameters(self, optimizer: torch.optim.Optimizer) -> None: ...


class Counting(Recording, Protocol):
    """What is counted until the end of a step."""

    settings: Settings
    batches: Batches
    gradients: Gradients
    schedules: Schedules
    updates: int
    taken: int
    skipped: int

    def scaler(self) -> Any | None: ...


class Seen(Protocol):
    """What is known of a training when its trace begins."""

    settings: Settings
    models: Models
    modules: Modules
    optimizers: Optimizers
    batches: Batches
    seeds: Seeds
    compiled: dict[str, None]
    loaded: list[dict[str, Any]]

    def ddp_wrappers(self) -> Iterator[DistributedDataParallel]: ...
    def scaler(self) -> Any | None: ...


class Loading(Failing, Protocol):
    """Who is given the batches of loaders."""

    batches: Batches

    @property
    def records(self) -> bool: ...
    @property
    def is_muted(self) -> bool: ...
    def wants_items(self) -> bool: ...


class Saving(Failing, Protocol):
    """A training as its checkpoints are told."""

    settings: Settings
    loaded: list[dict[str, Any]]
    rank: int
    updates: int

    @property
    def records(self) -> bool: ...
    def on_start(self, action: Callable[[], None]) -> None: ...
    def checkpoint_written(self) -> None: ...
    def off(self, is_update: bool = True) -> AbstractContextManager[None]: ...


class Communicating(Recording, Failing, Protocol):
    """A training as its collectives are told."""

    settings: Settings

    def on_start(self, action: Callable[[], None]) -> None: ...
    def on_step_end(self, action: Callable[[], None]) -> None: ...


class Wrapping(Failing, Protocol):
    """Who is told of models in DDP."""

    settings: Settings
    controls: Controls

    def ddp_made(self, wrapper: DistributedDataParallel) -> None: ...


class Leaving(Protocol):
    """Who is told how the process ends."""

    ending: Ending
    updates: int

    def leave(self) -> None: ...
    def leave_child(self) -> None: ...
    def finish(self, exit_code: int = 0) -> None: ...


class Told(Failing, Protocol):
    """What a script tells by the public functions."""

    def told(self, channel: str, name: str, value: Any) -> None: ...
    def tell_ids(self, ids: Iterable[int]) -> None: ...
    def step_by_hand(self) -> None: ...
    def off(self, is_update: bool = True) -> AbstractContextManager[None]: ...
