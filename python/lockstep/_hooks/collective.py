"""Collectives, spelled as the format does: "allreduce Float[650] SUM".

Those that the script calls come first in a turn. Those of DDP are issued below Python: they follow when the turn ends.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch
import torch.distributed as dist

from lockstep._batches import tensors_in
from lockstep._flight import Flight
from lockstep._guard import guarded, replace
from lockstep._recording import Communicating

#: Function of torch.distributed : operation, and the argument that holds what is sent.
_OPERATIONS = {"all_reduce": ("allreduce", "tensor"), "broadcast": ("broadcast", "tensor"),
               "reduce": ("reduce", "tensor"), "all_gather": ("allgather", "tensor"),
               "all_gather_into_tensor": ("allgather", "input_tensor"), "gather": ("gather", "tensor"),
               "scatter": ("scatter", "tensor"), "reduce_scatter": ("reduce_scatter", "input_list"),
               "reduce_scatter_tensor": ("reduce_scatter", "input"), "all_to_all": ("alltoall", "input_tensor_list"),
               "all_to_all_single": ("alltoall", "input"), "barrier": ("barrier", "")}

_DTYPES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
           torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
           torch.bool: "Bool"}

#: DDP reduces gradients and broadcasts buffers, layouts of its buckets and what ranks must agree in.
_OF_DDP = {"allreduce": "SUM", "broadcast": "from 0"}


def text_of(operation: str, sent: Any, arguments: dict[str, Any]) -> str:
    words: list[str] = [operation]
    for _, tensor in tensors_in(sent):
        words.append(f"{_DTYPES.get(tensor.dtype, str(tensor.dtype))}[{tensor.numel()}]")
    if operation in ("allreduce", "reduce", "reduce_scatter"):
        words.append(str(arguments.get("op", "SUM")).rpartition(".")[2])
    if operation in ("broadcast", "scatter"):
        words.append(f"from {arguments.get('src')}")
    if operation in ("reduce", "gather"):
        words.append(f"to {arguments.get('dst')}")
    return " ".join(words)


def _key(operation: str, sent: Any) -> tuple[str, int]:
    return operation, next((tensor.numel() for _, tensor in tensors_in(sent)), 0)


def _record_those_of_ddp(session: Communicating, flight: Flight) -> None:
    called, session.step.called = session.step.called, []
    for operation, tensors in flight.take():
        key = (operation, tensors[0][1] if tensors else 0)
        if key in called:
            called.remove(key)
        elif operation == "lost" and session.wants("collective"):
            session.recorder.text("collective", session.step.number("collective"), f"lost {key[1]}")
        elif operation in _OF_DDP and session.wants("collective"):
            sent = " ".join(f"{dtype}[{elements}]" for dtype, elements in tensors)
            text = f"{operation} {sent} {_OF_DDP[operation]}"
            session.recorder.text("collective", session.step.number("collective"), text)


def install(session: Communicating) -> None:
    if not dist.is_available() or "collective" not in session.settings.channels:
        return
    from torch.distributed import distributed_c10d as c10d

    def observe(signature: inspect.Signature, operation: str, sent: str, args: Any, kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        session.step.called.append(_key(operation, bound.arguments.get(sent)))
        if session.wants("collective"):
            text = text_of(operation, bound.arguments.get(sent), bound.arguments)
            session.recorder.text("collective", session.step.number("collective"), text)

    flight = Flight()
    session.on_start(flight.skip)
    session.on_step_end(lambda: _record_those_of_ddp(session, flight))
    before = guarded(session, observe)

    def observed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        operation, sent = _OPERATIONS[name]

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(original)

            def collective(*args: Any, **kwargs: Any) -> Any:
                if not torch.compiler.is_compiling():
                    before(signature, operation, sent, args, kwargs)
                return original(*args, **kwargs)

            return collective

        return make

    for name in _OPERATIONS:
        if hasattr(c10d, name):
            replace(c10d, name, observed(name))
            setattr(dist, name, getattr(c10d, name))
