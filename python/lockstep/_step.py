"""What is known of the step that is being recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Set, Tuple


@dataclass
class Step:
    """From the first forward pass of an update to the next one's."""

    forwards: Dict[int, int] = field(default_factory=dict)  #: of each caller, by its identity
    backwards: int = 0
    forwards_since_backward: int = 0
    ids: List[int] = field(default_factory=list)
    told_ids: List[int] = field(default_factory=list)  #: by lockstep.ids: they replace those of loaders
    items: List[int] = field(default_factory=list)
    updated: Set[int] = field(default_factory=set)  #: optimizers, by identity
    evaluations: int = 0  #: of the closure in the update that runs
    stage: Dict[int, str] = field(default_factory=dict)  #: of each parameter's gradient: "", "unscaled ", "clipped "
    told: Set[str] = field(default_factory=set)  #: gradients that are recorded
    denominators: Dict[str, float] = field(default_factory=dict)  #: that a forward pass was told
    clips: int = 0  #: calls that clip gradients
    thresholds: Dict[str, float] = field(default_factory=dict)  #: that they were given
    rates: List[Tuple[str, float]] = field(default_factory=list)
    names: Dict[Tuple[str, str], int] = field(default_factory=dict)  #: how often a record of a name was made
    called: List[Tuple[str, int]] = field(default_factory=list)  #: collectives of the script, and their elements
    skipped: bool = False
    complete: bool = False
    has_state: bool = False  #: where only checkpoints' states are kept

    def unique(self, channel: str, name: str) -> str:
        """A name that the step has not yet: "x", then "x#1"."""
        count = self.names.get((channel, name), 0)
        self.names[channel, name] = count + 1
        return f"{name}#{count}" if count else name

    def number(self, channel: str) -> str:
        """The next number of a record in a channel: "0"."""
        count = self.names.get((channel, ""), 0)
        self.names[channel, ""] = count + 1
        return str(count)
