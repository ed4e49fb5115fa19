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
    fsdp,
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
    passes, updates = Passes(session, session.reductions), Updates(session, session.reductions, session.turns)
    forward.install(session, session.models, passes)
    ddp.install(session, session.reductions)
    if "gradient.local" in settings.channels:
        fsdp.install(session, session.reductions.sharded)
    autograd.install(session, passes)
    scaler.install(session, passes, updates)
    clip.install(session, updates)
    optimizer.install(session, session.optimizer_made, updates)
    files.install(session, session.named_files)
    module.install(session, session.models)
    loader.install(session)
    collective.install(session)
    checkpoint.install(session, session.named_files)
    compiler.install(session, session.compiled)
    process.install(session)
    schedule.install(session, session.schedules)
    seed.install(session, session.seeds)
