"""Records what a training computes: `lockstep record --out FOLDER -- COMMAND…`, with nothing changed in the script.

What is here is for those who want more. Without `lockstep record` all of it does nothing and costs nothing:

    import lockstep

    lockstep.record("accuracy", accuracy)     # a metric, or any tensor
    lockstep.ids(indices)                     # samples, where no DataLoader tells them
    lockstep.step()                           # an update that no torch optimizer makes
    with lockstep.off():                      # not a part of the training
        evaluate(model)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from lockstep._recording import Told

__all__ = ["record", "step", "ids", "off"]
__version__ = "0.1.0"


def record(name: str, value: torch.Tensor | float | int, channel: str = "metric") -> None:
    """Records a tensor by its digest, a number by its value. `channel`: what it is compared as.

    A metric has to be the same on all ranks; record what each rank has of its own in "input" or "loss".
    """
    session = _active()
    if session is not None:
        _guarded(session, session.told)(channel, name, value)


def step() -> None:
    """Ends a step: the weights are updated. For trainings without a torch optimizer, or with several in no turns.

    From the first call on only such calls end steps.
    """
    session = _active()
    if session is not None:
        _guarded(session, session.step_by_hand)()


def ids(batch_indices: Iterable[int]) -> None:
    """Says which samples the rank takes in this step; called again, further ones. Replaces what DataLoaders tell."""
    session = _active()
    if session is not None:
        _guarded(session, session.tell_ids)(batch_indices)


def off() -> AbstractContextManager[None]:
    """A context in which nothing is recorded: an evaluation with gradients, a second training."""
    session = _active()
    return session.off() if session is not None else nullcontext()


def _active() -> Told | None:
    installed = sys.modules.get("lockstep._install")
    return installed.session if installed is not None else None


def _guarded(session: Told, hook: Any) -> Any:
    from lockstep._guard import guarded
    return guarded(session, hook)
