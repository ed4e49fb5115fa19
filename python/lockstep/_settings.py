"""What the environment asks of the recorder: `lockstep record` and `lockstep run` set these variables for a command."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Channels of the format (harness/trace/format.md), in the order of a step.
CHANNELS = ("samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer", "weight", "buffer", "ema",
            "metric", "ledger", "collective")

#: Channels that LOCKSTEP_RECORD_WEIGHTS=checkpoints leaves to the steps that write a checkpoint.
STATE = frozenset({"optimizer", "weight", "buffer"})


@dataclass(frozen=True)
class Settings:
    """How to record."""

    folder: str
    every: int = 1
    channels: frozenset[str] = frozenset(CHANNELS)
    state_at_checkpoints: bool = False
    header: Mapping[str, Any] = None  # type: ignore[assignment]
    controls: Mapping[str, Any] = None  # type: ignore[assignment]
    strict: bool = False
    stop_after: int | None = None  #: updates after which the training ends


def is_strict() -> bool:
    return os.environ.get("LOCKSTEP_RECORD_STRICT", "") not in ("", "0")


def settings_from_environment() -> Settings | None:
    """Nothing where recording is not switched on. Raises ValueError where a variable cannot be understood."""
    folder = os.environ.get("LOCKSTEP_RECORD")
    if not folder:
        return None
    return Settings(folder=os.path.join(os.path.abspath(folder), *_start()),
                    every=_number("LOCKSTEP_RECORD_EVERY") or 1, channels=_channels(),
                    state_at_checkpoints=_weights() == "checkpoints", header=_object("LOCKSTEP_RECORD_HEADER"),
                    controls=_object("LOCKSTEP_CONTROL"), strict=is_strict(),
                    stop_after=_number("LOCKSTEP_RECORD_STOP_AFTER"))


def _start() -> list[str]:
    """Folder of a later start of the ranks by torchrun: it is a recording of its own (harness/trace/reader.h)."""
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    return [f"restart{int(count)}"] if count.isdigit() and int(count) > 0 and os.environ.get("RANK") else []


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{variable} is '{text}'; a number of steps from 1 on is expected")
    return int(text)


def _channels() -> frozenset[str]:
    names = [name.strip() for name in os.environ.get("LOCKSTEP_RECORD_CHANNELS", "").split(",") if name.strip()]
    for name in names:
        if name not in CHANNELS:
            raise ValueError(f"LOCKSTEP_RECORD_CHANNELS names '{name}'; the channels are {', '.join(CHANNELS)}")
    return frozenset(names or CHANNELS)


def _weights() -> str:
    text = os.environ.get("LOCKSTEP_RECORD_WEIGHTS") or "steps"
    if text not in ("steps", "checkpoints"):
        raise ValueError(f"LOCKSTEP_RECORD_WEIGHTS is '{text}'; 'steps' or 'checkpoints' is expected")
    return text


def _object(variable: str) -> dict[str, Any]:
    text = os.environ.get(variable)
    try:
        value = json.loads(text) if text else {}
    except ValueError as error:
        raise ValueError(f"{variable} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{variable} is no JSON object")
    return value
