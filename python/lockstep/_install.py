"""Makes this process' session and hooks."""

from __future__ import annotations

from typing import Optional

from lockstep import _settings
from lockstep._hooks import (autograd, checkpoint, clip, collective, ddp, forward, loader, optimizer, process, scaler)
from lockstep._session import Session

#: The session of this process; nothing where nothing is recorded.
session: Optional[Session] = None


def install() -> None:
    """Raises where the environment cannot be understood or the library cannot be loaded."""
    global session
    settings = _settings.settings_from_environment()
    if settings is None:
        return
    from lockstep import _library
    _library.load()
    session = Session(settings)
    for hook in (forward, optimizer, ddp, autograd, scaler, clip, loader, collective, checkpoint, process):
        hook.install(session)
