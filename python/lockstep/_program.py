"""Where the program `lockstep` of this package is."""

from __future__ import annotations

import os

#: Folders that hold it, seen from the package: that of an installation, in lib/python3.x/site-packages or in
#: share/lockstep/python; of a build; and of `pip install --target`.
_PLACES = ("../../../../bin", "../../bin", "../bin")


def find() -> str:
    """Its path. Raises FileNotFoundError, which says where it was looked for."""
    package = os.path.dirname(os.path.abspath(__file__))
    looked = [os.path.normpath(os.path.join(package, place, "lockstep")) for place in _PLACES]
    for path in looked:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(f"the program lockstep is missing; looked for {', '.join(looked)}: "
                            "install lockstep whole (pip install --force-reinstall)")
