"""Forward and backward passes: inputs, samples, losses, and gradients before the reduction."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from lockstep import _fsdp, _guard
from lockstep._batches import NamedTensors, tensors_in
from lockstep._recording import Passing
from lockstep._reductions import Reductions

#: Arguments of a forward pass that the loss is divided by, and no data: that of transformers' models.
_DENOMINATORS = ("num_items_in_batch",)


def _is_transformed() -> bool:
    """Whether torch.func wraps the tensors that are computed with."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class Passes:
    """Hears of outermost passes only: a model inside of a model, and what backward computes again, are their parts."""

    def __init__(self, session: Passing, reductions: Reductions) -> None:
        self._session, self._reductions = session, reductions
        self._in_forward = self._in_backward = 0
        #: A loss before it was scaled, and what computed it, by the identity of the scaled one.
        self._unscaled: dict[int, tuple[torch.Tensor, Any]] = {}

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
            self._reductions.forward_begins(caller)
        step = session.step
        step.forwards_since_backward += 1
        step.stale = max(step.stale, sum(_fsdp.stale_in(root) for _, root in session.models.roots()))
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
            named = ((session.step.unique("input", name), tensor) for name, tensor in inputs)
            session.recorder.tensors("input", named)

    def scaled(self, scaler: Any, before: Any, after: Any) -> None:
        """A GradScaler multiplied a loss: the one before is recorded."""
        self._session.scaler_used(scaler)
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and after is not before:
            self._unscaled = {id(after): (before.detach(), before.grad_fn)}

    def backward_begins(self, tensors: Any) -> None:
        self._in_backward += 1
        session = self._session
        if self._in_backward > 1 or session.is_muted or not (session.records or any(session.optimizers.alive())):
            return
        if not session.start():
            return
        session.go_on()
        session.stop_if_done()
        session.controls.delay(session.rank)
        step = session.step
        if step.forwards_since_backward == 0:
            self._take_batch()
        self._record_loss([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
        step.backwards += 1
        session.gradients.backward_begins()
        self._reductions.backward_begins()
        step.forwards_since_backward = 0
        self._unscaled.clear()

    def _take_batch(self) -> None:
        """The model was not called as a whole: its input is the batch that a loader gave."""
        session = self._session
        session.batches.leave_out_evaluations()
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
        named = []
        for index, loss in enumerate(losses):
            if isinstance(loss, torch.Tensor):
                before, function = self._unscaled.get(id(loss), (loss, loss.grad_fn))
                named.append(("local" + (f"[{index}]" if index else ""), before))
                session.step.factors = _factors_of(function)
        session.recorder.tensors("loss", ((session.step.unique("loss", name), loss) for name, loss in named))

    def backward_ends(self) -> None:
        self._in_backward -= 1
        if self._in_backward == 0:
            self._session.gradients.backward_ends()
            self._reductions.backward_ends()


def _factors_of(function: Any) -> dict[str, float]:
    """By how much a script multiplied and divided its loss, after it had become a number."""
    factors = {"loss_multiplied": 1.0, "loss_divided": 1.0}
    while function is not None and function.name() in ("MulBackward0", "DivBackward0", "ToCopyBackward0"):
        if function.name() != "ToCopyBackward0":
            other = function._saved_other
            if not isinstance(other, torch.Tensor) or other.numel() != 1 or other.requires_grad or not other.is_cpu:
                break
            factor = abs(float(other))
            is_division = (function.name() == "DivBackward0") == (factor >= 1)
            factors["loss_divided" if is_division else "loss_multiplied"] *= max(factor, 1 / factor) if factor else 1
        function = function.next_functions[0][0]
    return {name: factor for name, factor in factors.items() if factor != 1}
