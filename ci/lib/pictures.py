"""Draws the pictures of the documentation: docs/pictures/make [--check | --record]

The sources are read: channels from harness/trace, folders and their includes from harness/, rows and causes from the
tables of docs/. So a picture is text for Graphviz, and its SVG holds the digest of that text. Drawing needs `dot` and
rich. --check needs neither: it compares the digests. --record runs lockstep in a terminal first, and keeps what it
printed: docs/pictures/session.txt. Exit codes: 0 done; 1 a picture is out of date; 2 nothing was judged.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from lib.graphs import COLORS, GRAPHS, PAPER, cells_of
from lib.repository import ROOT, NothingJudged, replace_file

FOLDER = pathlib.Path("docs/pictures")
SESSION = FOLDER / "session.txt"
# ---- drawing ----

def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mark_of(text: str) -> str:
    """The comment by which a picture says from which text it was drawn."""
    return f"<!-- Drawn by docs/pictures/make; digest of its source: {digest_of(text)} -->"


def graph_svg(text: str) -> str:
    """The picture of a graph, with its colours in light and in dark."""
    if not shutil.which("dot"):
        raise NothingJudged("no program 'dot' in PATH: install Debian's graphviz")
    drawn = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout
    found = re.search(r'viewBox="0\.00 0\.00 ([\d.]+) ([\d.]+)"[^>]*>\n(.*)</svg>', drawn, re.DOTALL)
    if not found:
        raise NothingJudged("dot drew no picture")
    width, height = (float(size) + 16 for size in found.groups()[:2])
    content = re.sub(r"<!--.*?-->\n|<title>.*?</title>\n", "", found[3])
    content = re.sub(r'<polygon fill="transparent"[^>]*/>\n', "", content, count=1)
    content = content.replace(' font-family="Helvetica,sans-Serif"', "")
    dark = "".join(f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
                   for light, dark in COLORS.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" \
viewBox="-8 -8 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">
{mark_of(text)}
<style>@media (prefers-color-scheme: dark) {{{dark}}}</style>
<rect x="-8" y="-8" width="100%" height="100%" rx="8" fill="{PAPER}"/>
{content}</svg>
"""


# ---- a terminal ----

COMMAND = "lockstep run lockstep-demo/accumulation.jsonc"
COLUMNS = 122
TERMINAL = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, \
'SFMono-Regular', Menlo, Consolas, 'DejaVu Sans Mono', monospace">
<style>.{unique_id}-matrix {{font-size: {char_height}px; line-height: {line_height}px}} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed(output: str) -> str:
    """What stays of a terminal's output: progress is overwritten, and what is too long for the picture is cut."""
    kept = []
    for line in output.replace("\r\n", "\n").split("\n"):
        line = re.split(r"\r|\x1b\[K", line)[-1].rstrip()
        plain = re.sub(r"\x1b\[[\d;]*m", "", line)
        kept.append(line if len(plain) <= COLUMNS else plain[:COLUMNS - 1] + "…")
    return "\n".join(kept).strip("\n") + "\n"


def record(root: pathlib.Path) -> None:
    """Runs the command in a terminal, beside the scripts of `lockstep demo`, and keeps what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(root / "python/lockstep/demo", pathlib.Path(folder) / "lockstep-demo")
        mine, its = pty.openpty()
        with subprocess.Popen(COMMAND.split(), cwd=folder, stdin=its, stdout=its, stderr=its) as running:
            os.close(its)
            output = b"".join(iter(lambda: read_from(mine), b""))
        os.close(mine)
    if running.returncode != 1:
        raise NothingJudged(f"{COMMAND} ended with {running.returncode}: {output.decode()[-500:]}")
    replace_file(root / SESSION, f"$ {COMMAND}\n" + printed(output.decode()))


def read_from(terminal: int) -> bytes:
    """What a program wrote; nothing once it has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def session(root: pathlib.Path) -> str:
    """What was printed, and the cause in it as the table of causes has it now."""
    text = (root / SESSION).read_text(encoding="utf-8")
    causes = [row[2] for row in cells_of(root, "docs/causes.md") if row[0].strip("`°") + ":" in text]
    if not causes or any(cause not in text for cause in causes):
        raise NothingJudged(f"{SESSION} has no cause of docs/causes.md in its words: docs/pictures/make --record")
    return text


def session_svg(text: str) -> str:
    """The picture of a terminal."""
    try:
        from rich.console import Console
        from rich.terminal_theme import MONOKAI
        from rich.text import Text
    except ImportError as why:
        raise NothingJudged(f"{why}: `ci/setup --tests` installs a Python that has it") from why

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, legacy_windows=False)
        console.print(Text.from_ansi(text), soft_wrap=True)
        drawn: str = console.export_svg(title="lockstep", theme=MONOKAI, code_format=TERMINAL, unique_id="t")
    lines = (line.strip() for line in drawn.splitlines())
    return "\n".join(filter(None, lines)).replace("\n<style>", f"\n{mark_of(text)}\n<style>", 1) + "\n"


# ---- all of them ----

def sources(root: pathlib.Path) -> dict[str, str]:
    """The text from which each picture is drawn."""
    return {name: draw(root) for name, draw in GRAPHS.items()} | {"session": session(root)}


def out_of_date(root: pathlib.Path) -> list[str]:
    """Pictures that were drawn from another text, or never."""
    def is_drawn(name: str, text: str) -> bool:
        file = root / FOLDER / f"{name}.svg"
        return file.is_file() and mark_of(text) in file.read_text(encoding="utf-8")

    return [name for name, text in sources(root).items() if not is_drawn(name, text)]


def main(arguments: Sequence[str], root: pathlib.Path = ROOT) -> int:
    """Draws the pictures, or checks them."""
    if arguments == ["--check"]:
        late = out_of_date(root)
        for name in late:
            print(f"{FOLDER / name}.svg: its source has changed; draw it again: docs/pictures/make")
        return 1 if late else 0
    if arguments == ["--record"]:
        record(root)
    elif arguments:
        raise NothingJudged(f"usage: {FOLDER}/make [--check | --record]")
    for name, text in sources(root).items():
        replace_file(root / FOLDER / f"{name}.svg", session_svg(text) if name == "session" else graph_svg(text))
    return 0
