"""One process' trace: when it begins and ends, and its steps."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lockstep import (
    _controls,
    _endings,
    _facts,
    _guard,
    _ledger,
    _library,
    _optimizers,
    _rest,
    _settings,
    _state,
    _stop,
)
from lockstep._batches import Batch, Batches, NamedTensors, items_in
from lockstep._generators import Generators, Seeds, cpu_state
from lockstep._gradients import Gradients
from lockstep._hooks.schedule import Schedules
from lockstep._models import Models
from lockstep._modules import Modules
from lockstep._named_files import NamedFiles
from lockstep._reductions import Reductions
from lockstep._step import Step
from lockstep._threads import Threads
from lockstep._turns import Turns


class Session:
    """Its trace begins with the first forward pass or update, so launchers and loaders' workers have none.

    A step is one turn of the optimizers. Its line stays open until the next step begins: a metric or a checkpoint after
    an update belongs to it.
    """

    def __init__(self, settings: _settings.Settings) -> None:
        self.settings = settings
        self.models = Models()
        self.optimizers = _optimizers.Optimizers()
        self.batches = Batches()
        self.ending = _endings.Ending(settings.folder)
        self.controls = _controls.Controls(settings.controls)
        self.schedules, self.seeds = Schedules(), Seeds()
        self.gradients = Gradients()
        self.reductions = Reductions(self)
        self.modules = Modules()
        self.named_files = NamedFiles()
        self.compiled: dict[str, None] = {}  #: names of models and functions that torch.compile was given, in order
        self.loaded: list[dict[str, Any]] = []  #: checkpoints that were read before the trace began
        self.rank = 0
        self.step = Step()
        self.turns = Turns(self)
        self.updates = 0  #: that are done
        self.by_hand = False  #: steps end where the script says so
        self._over = False
        self._recorder: _library.Recorder | None = None
        self._cpu_at_import = cpu_state()
        self._generators: Generators | None = None
        self._starting: list[Callable[[], None]] = []
        self._ending_steps: list[Callable[[], None]] = []
        self._due = True
        self._muted = 0
        self._preparing = 0
        self.muted_updates = 0  #: since the last step
        self._start_lock, self._threads = threading.RLock(), Threads()
        self.taken = self.skipped = 0  #: samples and updates
        self._ddp: list[weakref.ref[DistributedDataParallel]] = []
        self._scaler: weakref.ref[Any] | None = None

    # ---- whether

    def listens(self) -> bool:
        return not self._over

    @property
    def records(self) -> bool:
        """Whether the trace has begun, and the training is not told to be left out."""
        return self._recorder is not None and not self._muted

    @property
    def recorder(self) -> _library.Recorder:
        assert self._recorder is not None
        return self._recorder

    @property
    def is_preparing(self) -> bool:
        """Whether an update makes an optimizer's state, and moves nothing."""
        return self._preparing > 0

    @property
    def is_muted(self) -> bool:
        return self._muted > 0

    def wants(self, channel: str) -> bool:
        """Asked before any work."""
        return self._recorder is not None and self._due and not self._muted and channel in self.settings.channels

    def wants_items(self) -> bool:
        """Whether the update that comes records what a loader gives now; the trace need not have begun."""
        return ("samples" in self.settings.channels and self.updates % self.settings.every == 0 and not self._muted
                and torch.is_grad_enabled())

    # ---- start and end

    def on_start(self, action: Callable[[], None]) -> None:
        """To be done once the trace has begun."""
        self._starting.append(action)

    def on_step_end(self, action: Callable[[], None]) -> None:
        """To be done before the line of a step is ended."""
        self._ending_steps.append(action)

    def start(self) -> bool:
        """Opens the trace, unless that was done, and records the state before the first update."""
        if self._recorder is not None:
            return not self._muted
        with self._start_lock:
            return self._start()

    def _start(self) -> bool:
        if self._muted or self._over:
            return False
        if self._recorder is not None:  # another thread was here
            return True
        self.controls.apply()
        self.meet(self.optimizers.parameters())
        self.models.fix_names()
        self.optimizers.fix_names()
        self.rank, world_size = _place()
        self._recorder = self._open(world_size)
        if self._recorder is None:
            return False
        atexit.register(self.finish)
        self.ending.begin(self.rank)
        self._generators = Generators(self._cpu_at_import)
        told_ids = self.step.told_ids
        self.begin(_INITIAL)
        self._record_initial_state()
        self._tell_besides()
        self._recorder.end_step()
        self.begin(0)
        self.step.told_ids = told_ids
        for action in self._starting:
            action()
        return True

    def _open(self, world_size: int) -> _library.Recorder | None:
        try:
            return _library.Recorder(self.settings.folder, self.rank, world_size, _facts.header_of(self),
                                     sorted(self.settings.channels, key=_settings.CHANNELS.index), self.settings.every)
        except _library.RecorderError as error:
            self._over = True
            _guard.tell(f"nothing is recorded: {error}")
            _endings.refuse(self.settings.folder, self.rank)
            if self.settings.strict:
                _guard.end_process()
            return None

    def finish(self, exit_code: int = 0) -> None:
        """Ends the trace: a whole one, unless the training failed."""
        if self._recorder is not None and not self._over:
            _guard.guarded(self, self._finish)(exit_code)

    def leave(self) -> None:
        """The process ends: says why it failed where no trace began, which would say so."""
        if self._recorder is None and not self._over:
            _guard.guarded(self, self.ending.write_before_start)()

    def _finish(self, exit_code: int) -> None:
        reason = self.ending.reason(exit_code)
        if reason is None:
            self.turns.end()  # no update follows
        if reason is None and self.step.updated and not self.step.complete:
            self.step.is_rest = self.optimizers.some_lead()
            self.complete()  # the last turn is not a whole one
        if self.step.complete:
            self._end_step()
        else:
            if reason is None:
                _rest.write(self.step, self.settings.folder, self.rank)
            self.recorder.drop_step()
        if reason is None and self.updates == 0:  # weights may have moved all the same: nothing here would show it
            reason = "no update was recorded: call lockstep.step() after each update that no torch optimizer makes"
            _guard.tell(f"{reason}; the trace stays torn")
        self.named_files.tell(self.settings.folder, self.rank)
        if reason is None:
            self.recorder.close()
        else:
            self.ending.write(reason)
        self._over = True
        self._drop()

    def fail(self, error: BaseException) -> None:
        """The recorder failed: nothing more is recorded, and the trace stays torn."""
        self._over = True
        where, what = _endings.place_of(error), f"the recorder failed: {type(error).__name__}: {error}"
        if isinstance(error, _guard.Refused):
            where, what = "", str(error)
        ends = "the trace stays torn" if self._recorder is not None else "nothing is recorded"
        _guard.tell(f"{ends}: {what}" + (f" ({where})" if where else ""))
        if self._recorder is not None:
            self.ending.write(what, where)
            self._drop()
        if self.settings.strict:
            _guard.end_process()

    def _drop(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.free()

    def leave_child(self) -> None:
        """In the child of a fork: the trace is the parent's. A child of one that records nothing may train itself."""
        if self._recorder is not None:
            self._recorder = None
            self._over = True

    # ---- steps

    def begin(self, step: int) -> None:
        self._due = step < 0 or step % self.settings.every == 0
        self.step = Step(batch=self.step.batch)
        self.recorder.begin_step(step)

    def go_on(self) -> None:
        """Something of the next update happens: the line of the last one is done."""
        self._threads.enter()
        if self.step.complete:
            self._end_step()
            self.begin(self.updates)
        elif self.step.turn_ended and not self.by_hand:
            self.turns.follow()

    def before_end(self) -> None:
        for action in self._ending_steps:
            action()

    def _end_step(self) -> None:
        self.before_end()
        self._tell_besides()
        self.recorder.end_step()

    def _tell_besides(self) -> None:
        """What happened since the step before and belongs to none."""
        if not self._due:
            return
        if self.muted_updates:
            self.recorder.integer("ledger", "seen.muted", self.muted_updates)
            self.muted_updates = 0
        for path, digest in self.modules.new().items():
            self.recorder.text("ledger", f"seen.module {path}", digest)

    def complete(self) -> None:
        """The updates of the step are done: records the state after them."""
        self.updates += 1
        self.skipped += self.step.skipped
        self.reductions.step_ends()
        self._record_samples()
        if self.wants("rng") and self._generators is not None:
            self._generators.record(self.recorder)
        if not self.settings.state_at_checkpoints:
            _state.record_state(self)
        if self.wants("ledger"):
            _ledger.record(self)
        self.step.complete = True
        self.step.alive = []
        self.ending.goes_on()

    def keep_alive(self) -> None:
        """The script may leave its models and optimizers before it is known that the last turn is a step."""
        self.step.alive = [*(root for _, root in self.models.roots()), *self.optimizers.alive()]

    def checkpoint_written(self) -> None:
        """Where only checkpoints' states are kept, that of the update before is kept now."""
        if self.settings.state_at_checkpoints and self.records and self.step.complete and not self.step.has_state:
            self.step.has_state = True
            _state.record_state(self)

    def stop_if_done(self) -> None:
        """Something that only an update needs is about to begin: ends the process after the updates that are wanted."""
        wanted = self.settings.stop_after
        if wanted is None or self.updates < wanted or self._recorder is None:
            return
        _stop.meet(wanted)
        self.turns.end()
        self.step.backwards = 0  # what was begun is no rest of this training
        self._finish(0)
        _stop.end_workers()
        if self.rank == 0:
            _guard.tell(f"stopped after {self.updates} updates")
        _guard.end_process(0)

    # ---- models, optimizers and what else becomes known

    def meet(self, parameters: Iterable[torch.Tensor]) -> None:
        """Looks for the models that hold these parameters, and listens to them."""
        for found in self.models.adopt_holders_of(parameters):
            self.models.watch(found)

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizers.meet(optimizer)
        self.meet(_optimizers.parameters_of(optimizer))

    def ddp_made(self, wrapper: DistributedDataParallel) -> None:
        self._ddp.append(weakref.ref(wrapper))
        self.models.adopt(wrapper.module)
        self.models.watch(wrapper)

    def ddp_wrappers(self) -> Iterator[DistributedDataParallel]:
        for reference in self._ddp:
            wrapper = reference()
            if wrapper is not None:
                yield wrapper

    def scaler_used(self, scaler: Any) -> None:
        self._scaler = weakref.ref(scaler)

    def scaler(self) -> Any | None:
        """The GradScaler that scales losses."""
        scaler = self._scaler() if self._scaler is not None else None
        return scaler if scaler is not None and scaler.is_enabled() else None

    # ---- samples, ledger and records of the script's own

    def take(self, batches: list[Batch], inputs: NamedTensors) -> None:
        """Counts the samples of an input: its ids where a loader told them, else a digest of each item."""
        for batch in batches:
            self.step.batch = batch
            batch.source.is_trained = True
            self.step.ids += batch.ids or []
            self.step.items += batch.items
        if not self.batches.any_given and self.wants("samples"):
            self.step.items += items_in(tensor for _, tensor in inputs)

    def _record_samples(self) -> None:
        ids = self.step.told_ids or self.step.ids
        self.taken += len(ids or self.step.items)
        if self.wants("samples"):
            if ids:
                self.recorder.integers("samples", "ids", ids)
            if self.step.items:
                self.recorder.integers("samples", "items", self.step.items)

    def _record_initial_state(self) -> None:
        if self.wants("rng") and self._generators is not None:
            self._generators.record(self.recorder)
        _state.record_state(self)
        for optimizer in self.optimizers.outermost():
            self.record_hyperparameters(optimizer)

    def record_hyperparameters(self, optimizer: torch.optim.Optimizer) -> None:
        """Those that are new or changed."""
        if self.wants("ledger"):
            for name, value in self.optimizers.changed_hyperparameters(optimizer):
                self.recorder.number("ledger", name, value)

    def told(self, channel: str, name: str, value: Any) -> None:
        """lockstep.record()"""
        if not self.start() or not self.wants(channel):
            return
        name = self.step.unique(channel, name)
        if isinstance(value, torch.Tensor):
            self.recorder.tensors(channel, [(name, value)])
        elif isinstance(value, (bool, int)):
            self.recorder.integer(channel, name, int(value))
        else:
            self.recorder.number(channel, name, float(value))

    def tell_ids(self, ids: Iterable[int]) -> None:
        """lockstep.ids()"""
        if self.records:
            self.go_on()
        self.step.told_ids += [int(index) for index in ids]

    def step_by_hand(self) -> None:
        """lockstep.step()"""
        first, self.by_hand = not self.by_hand, True
        if not self.start() or (first and self.step.complete):
            return
        self.turns.join()
        self.go_on()
        self.stop_if_done()
        self.complete()

    @contextlib.contextmanager
    def off(self, is_update: bool = True) -> Iterator[None]:
        """lockstep.off(). `is_update`: whether an update in it is one of the training."""
        self._muted += 1
        self._preparing += not is_update
        try:
            yield
        finally:
            self._muted -= 1
            self._preparing -= not is_update


#: The step before the first update.
_INITIAL = -1


def _place() -> tuple[int, int]:
    """Rank and world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
