"""What torch calls at the end of its import (entry point group "torch.backends"); found through PYTHONPATH.

A package of its own, by a name that no script has: a module of the user's may be called lockstep, and hides the
recorder.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def activate() -> None:
    """Begins to listen, if the environment asks for it.

    Whatever it raised would end `import torch`: it raises nothing.
    """
    if not os.environ.get("LOCKSTEP_RECORD"):
        return
    try:
        found = importlib.util.find_spec("lockstep")
        origin = found.origin if found and found.origin else "nothing"
        if os.path.exists(os.path.join(os.path.dirname(origin), "_entry.py")):
            from lockstep import _entry
            _entry.activate()
            return
        print(f"lockstep: nothing is recorded: {origin} has the name of the recorder's package; give it another name",
              file=sys.stderr, flush=True)
    except Exception as error:
        print(f"lockstep: nothing is recorded: {error}", file=sys.stderr, flush=True)
    if os.environ.get("LOCKSTEP_RECORD_STRICT", "") not in ("", "0"):
        os._exit(70)  # as _guard.end_process does
