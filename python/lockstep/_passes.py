"""Forward and backward passes: inputs, samples, losses, and gradients before the reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep import _guard
from lockstep._batches import NamedTensors, tensors_in
from lockstep._models import readable

if TYPE_CHECKING:
    from lockstep._session import Session


#: Arguments of a forward pass that the loss is divided by, and no data: that of transformers' models.
_DENOMINATORS = ("num_items_in_batch",)


def _is_transformed() -> bool:
    """Whether torch.func wraps the tensors that are computed with."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class Passes:
    """Hears of outermost passes only: a model inside of a model, and what backward computes again, are their parts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._in_forward = self._in_backward = 0
        self._unscaled: dict[int, torch.Tensor] = {}  #: a loss before it was scaled, by the identity of the scaled one

    def forward_begins(self, caller: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._in_forward += 1
        session = self._session
        if self._in_forward > 1 or self._in_backward or session.is_muted:
            return
        # Not `training`: Lightning leaves DDP's wrapper in evaluation mode, and people train with frozen statistics.
        if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            session.batches.take(tensor for _, tensor in tensors_in((args, kwargs)))
            return
        if _is_transformed():
            raise _guard.Refused("the model is called inside of torch.func (vmap, grad, …), whose tensors cannot be "
                                 "read; put `with lockstep.off():` around it")
        if not session.start():
            return
        session.go_on()
        if issubclass(type(caller), DistributedDataParallel):
            session.reductions.forward_begins(caller)
        step = session.step
        step.forwards_since_backward += 1
        inputs = self._inputs_of(caller, args, kwargs)
        session.take(session.batches.take(tensor for _, tensor in inputs), inputs)
        self._record_input(inputs)
        if session.wants("ledger"):
            step.denominators.update((name, float(kwargs[name])) for name in _DENOMINATORS
                                     if isinstance(kwargs.get(name), (int, float, torch.Tensor)))

    def forward_ends(self) -> None:
        self._in_forward -= 1

    def _inputs_of(self, caller: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NamedTensors:
        models = self._session.models
        names, prefix = models.argument_names(caller), models.prefix_of_caller(caller)
        given = [(names[i] if i < len(names) else str(i), value) for i, value in enumerate(args)]
        return [(prefix + name, tensor) for key, value in [*given, *kwargs.items()]
                if key not in _DENOMINATORS for name, tensor in tensors_in(value, key)]

    def _record_input(self, inputs: NamedTensors) -> None:
        session = self._session
        if session.wants("input"):
            named = ((session.step.unique("input", name), tensor) for name, tensor in readable(inputs))
            session.recorder.tensors("input", named)

    def scaled(self, scaler: Any, before: Any, after: Any) -> None:
        """A GradScaler multiplied a loss: the one before is recorded."""
        self._session.scaler_used(scaler)
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and after is not before:
            self._unscaled = {id(after): before.detach()}

    def backward_begins(self, tensors: Any) -> None:
        self._in_backward += 1
        session = self._session
        if self._in_backward > 1 or session.is_muted or not (session.records or any(session.optimizers.alive())):
            return
        if not session.start():
            return
        session.go_on()
        session.controls.delay(session.rank)
        step = session.step
        if step.forwards_since_backward == 0:
            self._take_batch()
        self._record_loss([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
        step.backwards += 1
        session.gradients.backward_begins()
        session.reductions.backward_begins()
        step.forwards_since_backward = 0
        self._unscaled.clear()

    def _take_batch(self) -> None:
        """The model was not called as a whole: its input is the batch that a loader gave."""
        session = self._session
        batches = session.batches.take_oldest()
        inputs = [("batch." + name, tensor) for batch in batches for name, tensor in batch.named_tensors()]
        session.take(batches, inputs)
        self._record_input(inputs)

    def _record_loss(self, losses: list[Any]) -> None:
        session = self._session
        if "loss" in session.settings.channels:
            session.step.losses += [loss.detach() for loss in losses
                                    if isinstance(loss, torch.Tensor) and loss.numel() == 1]
        if not session.wants("loss"):
            return
        named = [("local" + (f"[{index}]" if index else ""), self._unscaled.get(id(loss), loss))
                 for index, loss in enumerate(losses) if isinstance(loss, torch.Tensor)]
        session.recorder.tensors("loss", ((session.step.unique("loss", name), loss) for name, loss in readable(named)))

    def backward_ends(self) -> None:
        self._in_backward -= 1
        if self._in_backward == 0:
            self._session.gradients.backward_ends()
            self._session.reductions.backward_ends()
