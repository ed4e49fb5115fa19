"""Begins to listen. `_lockstep_autoload` calls it at the end of `import torch`; it raises nothing."""

from __future__ import annotations

import os

_activated = False


def activate() -> None:
    """Listens to the trainings of this process, if the environment asks for it."""
    global _activated
    if _activated or not os.environ.get("LOCKSTEP_RECORD"):
        return
    _activated = True
    try:
        from lockstep import _install
        _install.install()
    except Exception as error:
        from lockstep import _guard, _settings
        _guard.tell(f"nothing is recorded: {error}")
        if _settings.is_strict():
            _guard.end_process()
