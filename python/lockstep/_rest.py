"""What follows the last update: passes that no update uses are no step. rest.rank<r>.json beside the trace tells them.

Only comparisons of two runs look at it: ranks may have unequally many.
"""

from __future__ import annotations

import json
import os

from lockstep import _files, _library
from lockstep._digests import digest_of
from lockstep._step import Step


def write(step: Step, folder: str, rank: int) -> None:
    """Nothing where no backward pass came after the last update: a forward pass alone may be an evaluation."""
    if step.backwards == 0:
        return
    losses = [digest_of(loss) for loss in step.losses if _library.is_readable(loss)]
    entry = {"micro_batches": step.backwards, "losses": losses, "samples": step.told_ids or step.ids or step.items}
    path = os.path.join(folder, f"rest.rank{rank}.json")
    _files.write_whole(path, json.dumps(entry) + "\n")
