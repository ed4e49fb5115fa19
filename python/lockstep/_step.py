"""What is known of the step that is being recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from lockstep._shards import is_sharded, local

if TYPE_CHECKING:
    import torch

    from lockstep._batches import Batch

#: Channel and name of a record.
Key = tuple[str, str]


@dataclass
class Step:
    """From the first forward pass of an update to the next one's."""

    batch: Batch | None = None  #: that was taken last, now or before
    backwards: int = 0
    losses: list[torch.Tensor] = field(default_factory=list)  #: of its backward passes
    forwards_since_backward: int = 0
    ids: list[int] = field(default_factory=list)
    told_ids: list[int] = field(default_factory=list)  #: by lockstep.ids: they replace those of loaders
    items: list[int] = field(default_factory=list)
    updated: set[int] = field(default_factory=set)  #: optimizers, by identity
    evaluations: int = 0  #: of the closure in the update that runs
    stage: dict[int, str] = field(default_factory=dict)  #: of each parameter's gradient: "", "unscaled ", "clipped "
    told: set[str] = field(default_factory=set)  #: gradients that are recorded
    denominators: dict[str, float] = field(default_factory=dict)  #: that a forward pass was told
    factors: dict[str, float] = field(default_factory=dict)  #: on the loss of its last backward pass
    clips: int = 0  #: calls that clip gradients
    clipped: int = 0  #: gradients that those got
    thresholds: dict[str, float] = field(default_factory=dict)  #: that they were given
    clipped_early: int = 0  #: gradients that a backward pass added to after they were clipped
    unclipped: int = 0  #: gradients that those left as they were
    norms: list[torch.Tensor] = field(default_factory=list)  #: by which they clipped
    clip_of: set[int] = field(default_factory=set)  #: parameters that those calls got, by identity
    reused: int = 0  #: gradients that an update before had used, and nobody changed
    left: int = 0  #: gradients that an update before had used, and nobody cleared
    unreduced: int = 0  #: parameters with a gradient that some ranks have not reduced before their update
    changed: int = 0  #: gradients that the script changed after FSDP2 had reduced them
    stale: int = 0  #: parameters that forward passes had as they were before an update
    reduced_passes: int = 0  #: backward passes of an update that DDP reduced
    unreduced_passes: int = 0  #: those of the update that came after them
    idle_updates: int = 0  #: that no parameter had a gradient for
    rates: list[tuple[str, float]] = field(default_factory=list)
    names: dict[Key, int] = field(default_factory=dict)  #: how often a record of a name was made
    names_before: dict[Key, int] = field(default_factory=dict)  #: by the step that this one may be a part of
    own_names: dict[Key, str] = field(default_factory=dict)  #: of records if it is no part of that step
    called: list[tuple[str, int]] = field(default_factory=list)  #: collectives of the script, and their elements
    skipped: bool = False
    turn_ended: bool = False  #: an optimizer updated, and others have not: the next pass may begin another step
    complete: bool = False
    alive: list[object] = field(default_factory=list)  #: models and optimizers, until their state is recorded
    is_rest: bool = False  #: what others than those that end steps updated after the last step
    has_state: bool = False  #: where only checkpoints' states are kept

    def norm(self) -> float | None:
        """By which gradients were clipped, where it is one number, and on this rank."""
        one = self.norms[0] if self.norms and all(norm is self.norms[0] for norm in self.norms) else None
        if one is None or one.numel() != 1 or (is_sharded(one) and not all(p.is_replicate() for p in one.placements)):
            return None
        return float(local(one.detach()))

    def unique(self, channel: str, name: str) -> str:
        """A name that the step has not yet: "x", then "x#1"."""
        return self._next(channel, name, lambda count: f"{name}#{count}" if count else name)

    def number(self, channel: str) -> str:
        """The next number of a record in a channel: "0"."""
        return self._next(channel, "", str)

    def _next(self, channel: str, name: str, numbered: Callable[[int], str]) -> str:
        key = (channel, name)
        count, before = self.names.get(key, 0), self.names_before.get(key, 0)
        self.names[key] = count + 1
        if before:
            self.own_names[channel, numbered(before + count)] = numbered(count)
        return numbered(before + count)

    def followed(self) -> Step:
        """What comes after a turn: a part of this step, or the next one."""
        return Step(batch=self.batch, names_before=dict(self.names))

    def absorb(self, part: Step) -> None:
        """What followed is a part of this step."""
        self.batch = part.batch
        self.backwards += part.backwards
        self.losses += part.losses
        self.forwards_since_backward += part.forwards_since_backward
        self.ids += part.ids
        self.told_ids += part.told_ids
        self.items += part.items
        self.stage.update(part.stage)
        self.told |= part.told
        self.denominators.update(part.denominators)
        self.factors = part.factors or self.factors
        self.stale = max(self.stale, part.stale)
        self.changed += part.changed
        self.clips += part.clips
        self.clipped += part.clipped
        self.unclipped += part.unclipped
        self.norms += part.norms
        self.clip_of |= part.clip_of
        self.thresholds.update(part.thresholds)
        for key, count in part.names.items():
            self.names[key] = self.names.get(key, 0) + count
        self.called += part.called
        self.turn_ended = False
