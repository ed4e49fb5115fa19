"""Makes this process' session and hooks."""

from __future__ import annotations

from lockstep import _library, _settings
from lockstep._hooks import (
    autograd,
    checkpoint,
    clip,
    collective,
    compiler,
    ddp,
    files,
    forward,
    loader,
    module,
    optimizer,
    process,
    scaler,
    schedule,
    seed,
)
from lockstep._passes import Passes
from lockstep._session import Session
from lockstep._updates import Updates

#: The session of this process; nothing where nothing is recorded.
session: Session | None = None


def install() -> None:
    """Raises where the environment cannot be understood or the library cannot be loaded."""
    global session
    settings = _settings.settings_from_environment()
    if settings is None:
        return
    _library.load()
    session = Session(settings)
    session.controls.apply()
    passes, updates = Passes(session), Updates(session)
    forward.install(session, passes)
    ddp.install(session)
    autograd.install(session, passes)
    scaler.install(session, passes, updates)
    clip.install(session, updates)
    optimizer.install(session, updates)
    for hook in (files, module, loader, collective, checkpoint, compiler, process, schedule, seed):
        hook.install(session)
