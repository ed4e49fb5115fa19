"""One process' trace: what the hooks tell becomes steps and records."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lockstep import _endings, _facts, _guard, _library, _optimizers, _settings, _state
from lockstep._batches import Batch, Batches, items_in, tensors_in
from lockstep._models import Models, readable
from lockstep._step import Step


class Session:
    """Its trace begins with the first forward pass or update, so launchers and loaders' workers have none.

    A step is one update of each optimizer, in turns; where they do not take turns, one update of the first that comes
    again. Its line stays open until the next step begins: a metric or a checkpoint after an update belongs to it.
    """

    def __init__(self, settings: _settings.Settings) -> None:
        self.settings = settings
        self.models = Models()
        self.optimizers = Optimizers()
        self.batches = Batches()
        self.loader: Optional[Dict[str, Any]] = None  #: facts of the loader whose batch came first
        self.updates = 0
        self.rank = 0
        self._starting: List[Callable[[], None]] = []
        self.ending = _endings.Ending(settings.folder)
        self._over = False
        self._recorder: Optional[_library.Recorder] = None
        self._generators: Optional[_state.Generators] = None
        self._step = Step()
        self._due = True
        self._taken = self._skipped = 0
        self._last_batch: Optional[Batch] = None
        self._muted = self._in_forward = self._in_backward = 0
        self._updating: List[int] = []
        self._by_hand = False
        self._ddp: List["weakref.ref[DistributedDataParallel]"] = []
        self._scaler: Optional["weakref.ref[Any]"] = None
        self._unscaled: Dict[int, torch.Tensor] = {}
        self._sync = False

    # ---- whether

    def listens(self) -> bool:
        return not self._over

    @property
    def records(self) -> bool:
        return self._recorder is not None

    def wants(self, channel: str) -> bool:
        """Asked before any work."""
        return (self._recorder is not None and self._due and not self._muted and channel in self.settings.channels)

    def wants_items(self) -> bool:
        """Whether the update that comes records what a loader gives now; the trace need not have begun."""
        return ("samples" in self.settings.channels and self.updates % self.settings.every == 0 and not self._muted
                and torch.is_grad_enabled())

    def fail(self, error: BaseException) -> None:
        """The recorder failed: nothing more is recorded, and the trace stays torn."""
        self._over = True
        where, what = _endings.place_of(error), f"{type(error).__name__}: {error}"
        _guard.tell(f"the recorder failed, and the trace stays torn: {what} ({where})")
        if self._recorder is not None:
            self.ending.write(f"the recorder failed: {what}", where)
            self._drop()
        if self.settings.strict:
            _guard.end_process()

    def leave_child(self) -> None:
        """In the child of a fork: the trace is the parent's. A child of one that records nothing may train itself."""
        if self._recorder is not None:
            self._recorder = None
            self._over = True

    # ---- start and end

    def start(self) -> bool:
        """Opens the trace, unless that was done, and records the state before the first update."""
        if self._recorder is not None:
            return True
        if self._muted or self._over:
            return False
        for found in self.models.adopt_holders_of(self.optimizers.parameters()):
            self.models.watch(found)
        self.models.fix_names()
        self.optimizers.fix_names()
        self.rank, world_size = _place()
        self._recorder = self._open(world_size)
        if self._recorder is None:
            return False
        atexit.register(self.finish)
        self.ending.begin(self.rank)
        self._generators = _state.Generators()
        told_ids = self._step.told_ids
        self._begin(-1)
        self._record_generators()
        _state.record_state(self, self._recorder)
        for optimizer in self.optimizers.alive():
            self._record_hyperparameters(optimizer)
        self._recorder.end_step()
        self._begin(0)
        self._step.told_ids = told_ids
        for action in self._starting:
            action()
        return True

    def on_start(self, action: Callable[[], None]) -> None:
        """To be done once the trace has begun."""
        self._starting.append(action)

    def _open(self, world_size: int) -> Optional[_library.Recorder]:
        try:
            return _library.Recorder(self.settings.folder, self.rank, world_size, _facts.header_of(self),
                                     sorted(self.settings.channels, key=_settings.CHANNELS.index), self.settings.every)
        except _library.RecorderError as error:
            self._over = True
            _guard.tell(f"nothing is recorded: {error}")
            if self.settings.strict:
                _guard.end_process()
            return None

    def finish(self, exit_code: int = 0) -> None:
        """Ends the trace: a whole one, unless the training failed."""
        if self._recorder is None or self._over:
            return
        _guard.guarded(self, self._finish)(exit_code)

    def _finish(self, exit_code: int) -> None:
        assert self._recorder is not None
        reason = self.ending.reason(exit_code)
        if self._step.complete or reason is None:
            self._recorder.end_step()
        if reason is None:
            self._recorder.close()
        else:
            self.ending.write(reason)
        self._over = True
        self._drop()

    def _drop(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.free()

    # ---- steps

    def _begin(self, step: int) -> None:
        assert self._recorder is not None
        self._due = step < 0 or step % self.settings.every == 0
        self._step = Step()
        self._recorder.begin_step(step)

    def _go_on(self) -> None:
        """Something of the next update happens: the line of the last one is done."""
        if self._step.complete:
            assert self._recorder is not None
            self._recorder.end_step()
            self._begin(self.updates)

    def _complete(self) -> None:
        """The update is done: records the state after it."""
        assert self._recorder is not None
        step = self._step
        self._record_samples()
        self._record_generators()
        if not self.settings.state_at_checkpoints:
            _state.record_state(self, self._recorder)
        self.updates += 1
        self._skipped += step.skipped
        if self.wants("ledger"):
            self._record_ledger()
        self._unscaled.clear()
        step.complete = True
        self.ending.goes_on()

    def step_by_hand(self) -> None:
        """lockstep.step(): from now on only such calls end a step."""
        first, self._by_hand = not self._by_hand, True
        if not self.start() or (first and self._step.complete):
            return
        self._go_on()
        self._complete()

    # ---- models and optimizers

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizers.meet(optimizer)
        for found in self.models.adopt_holders_of(_optimizers.parameters_of(optimizer)):
            self.models.watch(found)

    def ddp_made(self, wrapper: DistributedDataParallel) -> None:
        self._ddp.append(weakref.ref(wrapper))
        self.models.adopt(wrapper.module)
        self.models.watch(wrapper)

    def ddp_wrappers(self) -> Iterator[DistributedDataParallel]:
        for reference in self._ddp:
            wrapper = reference()
            if wrapper is not None:
                yield wrapper

    def scaler(self) -> Optional[Any]:
        scaler = self._scaler() if self._scaler is not None else None
        return scaler if scaler is not None and scaler.is_enabled() else None

    def scaled(self, scaler: Any, before: Any, after: Any) -> None:
        """A GradScaler multiplied a loss: what is recorded of it is the loss before."""
        self._scaler = weakref.ref(scaler)
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and after is not before:
            self._unscaled = {id(after): before.detach()}

    # ---- forward and backward

    def forward_begins(self, caller: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self._in_forward += 1
        if self._in_forward > 1 or self._in_backward or self._muted:
            return
        if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            self.batches.take(tensor for _, tensor in tensors_in((args, kwargs)))
            return
        if not self.start():
            return
        self._go_on()
        if issubclass(type(caller), DistributedDataParallel):
            self._sync = bool(caller.require_backward_grad_sync)
        step, identity = self._step, id(caller)
        count = step.forwards[identity] = step.forwards.get(identity, 0) + 1
        step.forwards_since_backward += 1
        inputs = self._inputs(caller, args, kwargs)
        self._take(self.batches.take([tensor for _, tensor in inputs]), inputs)
        self._record_input(inputs, f"#{count - 1}" if count > 1 else "")

    def forward_ends(self) -> None:
        self._in_forward -= 1

    def _inputs(self, caller: torch.nn.Module, args: Tuple[Any, ...],
                kwargs: Dict[str, Any]) -> List[Tuple[str, torch.Tensor]]:
        names = self.models.argument_names(caller)
        prefix = self.models.prefix_of_caller(caller)
        given = [(names[i] if i < len(names) else str(i), value) for i, value in enumerate(args)]
        return [(prefix + name, tensor) for key, value in [*given, *kwargs.items()]
                for name, tensor in tensors_in(value, key)]

    def _record_input(self, inputs: List[Tuple[str, torch.Tensor]], suffix: str) -> None:
        if self.wants("input"):
            assert self._recorder is not None
            self._recorder.tensors("input", [(name + suffix, tensor) for name, tensor in readable(inputs)])

    def _take(self, batches: List[Batch], inputs: List[Tuple[str, torch.Tensor]]) -> None:
        """Counts the samples of an input: its ids where a loader told them, else a digest of each item."""
        for batch in batches:
            self._last_batch = batch
            self._step.ids += batch.ids or []
            self._step.items += batch.items
        if not self.batches.any_given and self.wants("samples"):
            self._step.items += items_in(tensor for _, tensor in inputs)

    def tell_ids(self, ids: Iterable[int]) -> None:
        """lockstep.ids()"""
        if self._recorder is not None:
            self._go_on()
        self._step.told_ids += [int(index) for index in ids]

    def backward_begins(self, tensors: Any) -> None:
        self._in_backward += 1
        if self._in_backward > 1 or self._muted or (self._recorder is None and not any(self.optimizers.alive())):
            return
        if not self.start():
            return
        self._go_on()
        step = self._step
        if step.forwards_since_backward == 0:  # the model was not called as a whole: its input is the loader's batch
            batches = self.batches.take_oldest()
            inputs = [("batch." + name, tensor) for batch in batches for name, tensor in batch.named_tensors()]
            self._take(batches, inputs)
            self._record_input(inputs, f"#{step.backwards}" if step.backwards else "")
        self._record_loss([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
        step.backwards += 1
        step.forwards_since_backward = 0

    def backward_ends(self) -> None:
        self._in_backward -= 1

    def _record_loss(self, losses: List[Any]) -> None:
        if not self.wants("loss"):
            return
        assert self._recorder is not None
        suffix = f"#{self._step.backwards}" if self._step.backwards else ""
        for index, loss in enumerate(losses):
            if isinstance(loss, torch.Tensor):
                name = "local" + (f"[{index}]" if index else "") + suffix
                self._recorder.tensors("loss", readable([(name, self._unscaled.pop(id(loss), loss))]))

    # ---- gradients

    def local_gradient(self, parameter: torch.Tensor) -> None:
        """Before the reduction, of the backward pass that reduces."""
        if self._sync and parameter.grad is not None and self.wants("gradient.local"):
            assert self._recorder is not None
            name = self.models.name_of(parameter)
            if name is not None:
                name = self._step.unique("gradient.local", name)
                self._recorder.tensors("gradient.local", readable([(name, parameter.grad)]))

    def gradients(self, parameters: Iterable[torch.Tensor], then: Optional[str] = None) -> None:
        """Records gradients as they are, unless that is done; `then`: what is about to be done to them."""
        parameters = list(parameters)
        if self.wants("gradient") and self.models.readable_roots():
            assert self._recorder is not None
            self._recorder.tensors("gradient", readable(self._untold(parameters)))
        if then is not None:
            self._step.stage.update((id(parameter), then) for parameter in parameters)

    def _untold(self, parameters: List[torch.Tensor]) -> Iterator[Tuple[str, torch.Tensor]]:
        step = self._step
        suffix = f"#{step.evaluations - 1}" if step.evaluations > 1 else ""
        for name, parameter in self.models.in_order(parameters):
            name = step.stage.get(id(parameter), "") + name + suffix
            if parameter.grad is not None and name not in step.told:
                step.told.add(name)
                yield name, parameter.grad

    # ---- updates

    def update_begins(self, optimizer: torch.optim.Optimizer, args: Tuple[Any, ...],
                      kwargs: Dict[str, Any]) -> Optional[Tuple[Any, Any]]:
        """Returns arguments with another closure, where there is one: forward and backward pass run inside."""
        if self._updating and self._updating[0] != id(optimizer):
            self._updating.append(id(optimizer))  # an optimizer that another one wraps
            return None
        self._updating = [id(optimizer)]
        self.optimizers.meet(optimizer)
        if self._muted or not self.start():
            return None
        self._go_on()
        self._take_turn(optimizer)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self._before_update(optimizer)
            return None
        observed = self._observed(closure, optimizer)
        return ((args[0], observed, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": observed})

    def _observed(self, closure: Callable[..., Any], optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
        before_update = _guard.guarded(self, self._before_update)

        @functools.wraps(closure)
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = closure(*args, **kwargs)
            self._step.evaluations += 1
            before_update(optimizer)
            return result

        return observed

    def _take_turn(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer that comes again before all others came leads from now on."""
        if self._by_hand:
            return
        expected = self.optimizers.expected()
        again = id(optimizer) in self._step.updated
        if again or (optimizer not in expected and not self._step.updated):
            self.optimizers.lead(optimizer)
        if again and not self._step.complete:
            self._complete()
            self._go_on()

    def _before_update(self, optimizer: torch.optim.Optimizer) -> None:
        self._step.rates += [rate for rate in self.optimizers.rates(optimizer) if rate not in self._step.rates]
        self._record_hyperparameters(optimizer)
        self.models.refresh()
        self.gradients(_optimizers.parameters_of(optimizer))

    def update_ends(self, optimizer: torch.optim.Optimizer, skipped: bool = False) -> None:
        if self._updating and self._updating[-1] == id(optimizer):
            self._updating.pop()
        if self._updating or self._recorder is None or self._muted:
            return
        step = self._step
        step.updated.add(id(optimizer))
        step.skipped = step.skipped or skipped
        step.evaluations = 0
        if not self._by_hand and not step.complete and all(
                id(other) in step.updated for other in self.optimizers.expected()):
            self._complete()

    def update_skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """A GradScaler found gradients that are not finite, and left the update out."""
        if self._recorder is not None and not self._muted:
            self._take_turn(optimizer)
            self._before_update(optimizer)
            self.update_ends(optimizer, skipped=True)

    def updates_begun(self) -> Tuple[int, int]:
        """Changes with each update that an optimizer makes."""
        return self.updates, len(self._step.updated)

    # ---- what the ledger and the rest hold

    def _record_samples(self) -> None:
        step = self._step
        ids = step.told_ids or step.ids
        self._taken += len(ids or step.items)
        if self.wants("samples"):
            assert self._recorder is not None
            if ids:
                self._recorder.integers("samples", "ids", ids)
            if step.items:
                self._recorder.integers("samples", "items", step.items)

    def _record_generators(self) -> None:
        if self.wants("rng"):
            assert self._generators is not None and self._recorder is not None
            self._generators.record(self._recorder)

    def _record_hyperparameters(self, optimizer: torch.optim.Optimizer) -> None:
        changed = self.optimizers.changed_hyperparameters(optimizer)
        if self.wants("ledger"):
            assert self._recorder is not None
            for name, value in changed:
                self._recorder.number("ledger", name, value)

    def _record_ledger(self) -> None:
        assert self._recorder is not None
        step, recorder = self._step, self._recorder
        for name, rate in step.rates:
            recorder.number("ledger", name, rate)
        recorder.integer("ledger", "micro_batches", step.backwards)
        recorder.integer("ledger", "samples_taken", self._taken)
        scaler = self.scaler()
        if scaler is not None:
            recorder.number("ledger", "loss_scale", float(scaler.get_scale()))
            recorder.integer("ledger", "skipped", self._skipped)
        recorder.integer("ledger", "updates", self.updates)
        if self._last_batch is not None and self._last_batch.epoch is not None:
            recorder.integer("ledger", "epoch", self._last_batch.epoch)
            if self._last_batch.passes is not None:
                recorder.integer("ledger", "passes", self._last_batch.passes)

    def collective(self, text: str) -> None:
        if self.wants("collective"):
            assert self._recorder is not None
            self._recorder.text("collective", str(self._step.collectives), text)
            self._step.collectives += 1

    def told(self, channel: str, name: str, value: Any) -> None:
        """lockstep.record()"""
        if not self.start() or not self.wants(channel):
            return
        assert self._recorder is not None
        name = self._step.unique(channel, name)
        if isinstance(value, torch.Tensor):
            self._recorder.tensors(channel, readable([(name, value)]))
        elif isinstance(value, (bool, int)):
            self._recorder.integer(channel, name, int(value))
        else:
            self._recorder.number(channel, name, float(value))

    def checkpoint_written(self) -> None:
        """The state belongs to this step where only checkpoints' states are kept."""
        if self.settings.state_at_checkpoints and self._recorder is not None and self._step.complete:
            if not self._step.names.get(("state", "")):
                self._step.unique("state", "")
                _state.record_state(self, self._recorder)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """lockstep.off()"""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1


Optimizers = _optimizers.Optimizers


def _place() -> Tuple[int, int]:
    """Rank and world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
