"""Runs the scenarios that reproduce what people do, with every mutation of their practices, and writes docs/systems.md.

Usage: ci/systems [LOCKSTEP]. It fails, and leaves the file as it is, unless each mutation turns a check of its practice
red. systems_left_out.md is the end of the page.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from lib import markdown
from lib.repository import ROOT, replace_file

DOCUMENT = pathlib.Path("docs/systems.md")
HEAD = """# What people do, and the scenario that reproduces it

Written by `ci/systems` from the scenarios' `practices`; change them there. *Proven by* names the checks that show a practice.
They hold, negative controls included. If the practice is a mistake, they show that lockstep catches it. *Goes red when* lists
mistakes in the scenario; each was tried, and turned one of these checks red (`lockstep run --mutations`).
"""  # noqa: E501


def page(practices: Sequence[dict[str, Any]], left_out: str) -> str:
    """The text of docs/systems.md."""
    rows = [(row["practice"], f"[{row['scenario']}](../{row['file']})", "; ".join(row["proven_by"]),
             "; ".join(mutation["name"] for mutation in row["mutations"])) for row in practices]
    table = markdown.table(("practice", "scenario", "proven by", "goes red when"), rows)
    return f"{HEAD}\n{table}\n\n{left_out}"


def main(arguments: Sequence[str]) -> int:
    """Runs the scenarios, and writes the page if all hold."""
    os.chdir(ROOT)
    lockstep = arguments[0] if arguments else "build/bin/lockstep"
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "result.json")
        ended = subprocess.run([lockstep, "run", "--mutations", "scenarios/systems", "scenarios/gate", "--json",
                                str(result)], stdout=subprocess.PIPE, text=True, errors="replace", check=False)
        if ended.returncode != 0:
            print(ended.stdout, end="")
            return ended.returncode
        print(*ended.stdout.splitlines()[-1:])
        practices = json.loads(result.read_text(encoding="utf-8"))["practices"]
    left_out = pathlib.Path(__file__).with_name("systems_left_out.md").read_text(encoding="utf-8")
    replace_file(DOCUMENT, page(practices, left_out))
    return 0
