"""Graphs of the documentation's pictures, as text for Graphviz, from the sources that they show (lib/pictures.py)."""

from __future__ import annotations

import html
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lib.repository import NothingJudged

#: Colours, in light and in dark.
COLORS = {"#1f2328": "#e6edf3", "#59636e": "#9198a1", "#ffffff": "#0d1117", "#f6f8fa": "#161b22",
          "#d1d9e0": "#3d444d", "#ddf4ff": "#0c2d4a", "#fff1d6": "#3b2a0a", "#dafbe1": "#0f2f1a", "#9a6700": "#d29922",
          "#1a7f37": "#3fb950", "#cf222e": "#f85149", "#8250df": "#ab7df8"}
INK, GREY, PAPER, PALE, LINE, BLUE, AMBER, GREEN, OPEN, GOOD, BAD, RANDOM = COLORS
HEAD = f"""bgcolor="transparent" fontname="Helvetica" fontsize=13 fontcolor="{INK}" nodesep=0.25 ranksep=0.35
node [fontname="Helvetica" fontsize=13 fontcolor="{INK}" color="{LINE}" fillcolor="{PALE}" shape=box
      style="filled,rounded" margin="0.14,0.07"]
edge [fontname="Helvetica" fontsize=12 fontcolor="{GREY}" color="{GREY}" arrowsize=0.7]"""


def graph(lines: Iterable[str]) -> str:
    """A graph in Graphviz's language."""
    return "\n".join(["digraph {", HEAD, *lines, "}"]) + "\n"


def small(text: str) -> str:
    return f'<font point-size="11" color="{GREY}">{html.escape(text)}</font>'


def listed(rows: Iterable[Sequence[str]]) -> str:
    """A label: a table without lines."""
    lines = ("".join(f'<td align="left">{cell}</td>' for cell in row) for row in rows)
    return f'<<table border="0" cellspacing="0" cellpadding="2"><tr>{"</tr><tr>".join(lines)}</tr></table>>'


def titled(title: str, lines: Iterable[str]) -> str:
    """A label: a title, and lines below it."""
    rows = "</td></tr><tr><td>".join([f"<b>{html.escape(title)}</b>", *map(small, lines)])
    return f'<<table border="0" cellspacing="0" cellpadding="1"><tr><td>{rows}</td></tr></table>>'


def wrapped(title: str, text: str) -> str:
    return titled(title, textwrap.wrap(text, 34))


def key(rows: Iterable[tuple[str, str, str]], *more: str) -> str:
    """A node that says what colours mean: (inside, border, meaning)."""
    lines = [f'<td bgcolor="{fill}" border="1" color="{border}" width="22"></td><td align="left">{meaning}</td>'
             for fill, border, meaning in rows]
    lines += [f'<td colspan="2" align="left">{line}</td>' for line in more]
    table = "</tr><tr>".join(lines)
    return f'key [shape=plain style="" label=<<table border="0" cellspacing="4"><tr>{table}</tr></table>>]'


def cells_of(root: pathlib.Path, page: str) -> Iterator[list[str]]:
    """Rows of the tables in a page."""
    for line in (root / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("|-"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


# ---- the layers ----

def includes_of(root: pathlib.Path) -> dict[str, set[str]]:
    """Folders of harness/ that each folder includes."""
    included: dict[str, set[str]] = {}
    for file in sorted((root / "harness").glob("*/**/*")):
        if file.suffix in (".h", ".cpp", ".cu", ".inc"):
            folder = file.relative_to(root / "harness").parts[0]
            found = re.findall(r'^\s*#\s*include "harness/(\w+)/', file.read_text(encoding="utf-8"), re.MULTILINE)
            included.setdefault(folder, set()).update(name for name in found if name != folder)
    return included


def below(folder: str, included: Mapping[str, set[str]]) -> set[str]:
    """All folders that one includes, and those that they include."""
    return {folder}.union(*(below(name, included) for name in included[folder]))


def layers(root: pathlib.Path) -> str:
    """Folders of harness/. An arrow that follows from others is left out."""
    included = includes_of(root)
    order = re.findall(r"^order='(.*)'$", (root / "ci/layers").read_text(encoding="utf-8"), re.MULTILINE)[0].split()
    said = {row[0].strip("`"): row[1] for row in cells_of(root, "ARCHITECTURE.md") if len(row) == 3}
    of_worker, of_lockstep = below("train", included), below("app", included)
    lines = ["rankdir=TB"]
    for folder in order:
        fill = GREEN if folder not in of_lockstep else BLUE if folder not in of_worker else PALE
        gist = re.split(r"[:;]", said[folder].replace("`", ""))[0]
        lines.append(f'{folder} [fillcolor="{fill}" label={wrapped(folder, gist)}]')
        direct = [name for name in order if name in included[folder]]
        lines += [f"{folder} -> {name}" for name in direct
                  if not any(name in below(other, included) for other in direct if other != name)]
    lines.append(key(((GREEN, LINE, "only lockstep-worker, one rank"), (BLUE, LINE, "only lockstep"),
                      (PALE, LINE, "both programs")), "an arrow: includes"))
    lines.append("{rank=same; app; key}")
    return graph(lines)


# ---- one step ----

#: The way of a step: (from, to, what happens between). The main one goes straight down.
MAIN_WAY = (("samples", "input", "loads"), ("input", "loss", "forward pass"),
            ("loss", "gradient.local", "backward pass"), ("gradient.local", "gradient", "all-reduce"),
            ("gradient", "optimizer", "update"), ("optimizer", "weight", ""))
SIDE_WAYS = (("rng", "loss", "draws"), ("input", "buffer", "BatchNorm"), ("gradient.local", "collective", "calls"),
             ("gradient", "ledger", "rate, counters"), ("weight", "ema", "averages"),
             ("weight", "metric", "evaluation"))
ROUNDS = ("kComputed", "kUpdated", "kFollowing", "kMeasured")


def step(root: pathlib.Path) -> str:
    """The channels of a step, in the order in which it computes them."""
    text = (root / "harness/trace/channel.h").read_text(encoding="utf-8")
    rows = re.findall(r'\{Channel::\w+, "([\w.]+)", Sharing::(\w+), Part::(\w+),[^"]*"([^"]+)"', text)
    main = {place for way in MAIN_WAY for place in way[:2]}
    if {row[0] for row in rows} != main | {place for way in SIDE_WAYS for place in way[:2]}:
        raise NothingJudged("ci/lib/graphs.py needs a way to each channel of harness/trace/channel.h")
    lines = ["rankdir=TB ranksep=0.3 nodesep=0.5"]
    for number, (name, sharing, part, content) in enumerate(rows, 1):
        fill = AMBER if sharing == "kPerRank" else BLUE
        border = f'color="{LINE}"' if part in ROUNDS else f'color="{BAD}" penwidth=1.6'
        group = "group=main" if name in main else ""
        lines.append(f'"{name}" [{group} fillcolor="{fill}" {border} label={wrapped(f"{number}  {name}", content)}]')
    lines += [f'"{begin}" -> "{end}" [weight=20 label=" {what} "]' for begin, end, what in MAIN_WAY]
    lines += [f'"{begin}" -> "{end}" [label=" {what} "]' for begin, end, what in SIDE_WAYS]
    lines.append(key(((AMBER, LINE, "each rank has its own"), (BLUE, LINE, "the same on all ranks"),
                      (PAPER, BAD, "cannot round: any difference counts")),
                     "number: order in which records are compared"))
    lines.append("{rank=same; samples; key}")
    return graph(lines)


# ---- the decision ----

#: Trials whose facts the rows below a comment of rows.cpp read.
TRIALS = {"The comparison, where no trial says more": ("diagnosis",),
          "Replays": ("replay", "replay_often", "replay_twice", "replay_there", "fill", "fill_again"),
          "Float64": ("float64",),
          "Single steps": ("one_state", "another_state", "one_state_there")}
VERDICTS = (("semantic", BAD), ("divergence", BAD), ("nondeterminism", RANDOM), ("rounding", GOOD), ("agree", GOOD),
            ("inconclusive", OPEN), ("undecided", OPEN), ("", GREY))


def rows_of(root: pathlib.Path) -> dict[str, list[str]]:
    """Rows of the decision, by the comment above them."""
    text = (root / "harness/decision/rows.cpp").read_text(encoding="utf-8")
    groups: dict[str, list[str]] = {}
    for comment, row in re.findall(r'^    // (.+)\.$|\{Row::\w+, "(\w+)"', text[text.index("kRows[]"):], re.MULTILINE):
        if comment:
            groups[comment] = []
        else:
            list(groups.values())[-1].append(row)
    return groups


def decision(root: pathlib.Path) -> str:
    """Trials, the rows that their facts decide, and the families of causes."""
    table = list(cells_of(root, "docs/rounding.md"))
    verdicts = {row[0].split("`")[1]: row[2] for row in table if row[0].startswith("<a id=")}
    groups, trials = rows_of(root), {name for row in table for name in re.findall(r"`(\w+)`", row[0])} - set(verdicts)
    if set(groups) != set(TRIALS) or not {name for group in TRIALS.values() for name in group} <= trials:
        raise NothingJudged("TRIALS in ci/lib/graphs.py does not fit harness/decision/rows.cpp and docs/rounding.md")
    causes = (row[0].split("`")[1] for row in cells_of(root, "docs/causes.md") if "`" in row[0])
    families = dict.fromkeys(cause.split(".")[0] for cause in causes)
    lines = ['rankdir=LR ranksep=0.5 nodesep=0.2 labelloc=b label="\\nA trial runs only if it can change the verdict. '
             'Its facts are checked against all rows from the top: the first that holds decides."',
             f'check [fillcolor="{BLUE}" label="a check is\\nred or open"]']
    for number, (comment, rows) in enumerate(groups.items()):
        title = "without a run" if number == 0 else comment.lower()
        trials_shown = [[f"<b>{title}</b>"], *([name] for name in TRIALS[comment] if name != title)]
        lines.append(f't{number} [margin="0.06,0.04" label={listed(trials_shown)}]')
        shown = [(small("row"), small("verdict"))]
        for row in rows:
            color = next(color for verdict, color in VERDICTS if verdicts[row].startswith(verdict))
            said = html.escape(re.split(r"[:;]", verdicts[row])[0])
            shown.append((row, f'<font color="{color}">{said}</font>'))
        lines.append(f'r{number} [margin="0.06,0.04" label={listed(shown)}]')
        lines += [f"check -> t{number}", f't{number} -> r{number} [label="facts"]', f"r{number} -> causes"]
    lines.append(f'causes [fillcolor="{BLUE}" margin="0.06,0.04" '
                 f'label={listed([["<b>cause</b>"], *([name] for name in families)])}]')
    return graph(lines)


# ---- the processes of a launch ----

def launch(_: pathlib.Path) -> str:
    """The processes of one run on two ranks, and the files of its folder."""
    lines = [f"""rankdir=TB compound=true ranksep=0.45 nodesep=0.3
node [fillcolor="{PAPER}"]
lockstep [fillcolor="{BLUE}" label={titled("lockstep run", ("starts the ranks and watches their ends",
         "and progress, then judges their traces"))}]
server [fillcolor="{GREEN}" label={titled("fork server", ("lockstep-worker with LibTorch loaded",
         "forks ranks"))}]
launcher [fillcolor="{GREEN}" label={titled("launcher", ("torchrun, accelerate, mpirun, srun,",
         "or the command of your own training"))}]
lockstep -> server [label=" built-in training "]
lockstep -> launcher [label=" or " style=dashed]
store [fillcolor="{BLUE}" label={titled("store", ("the ranks meet here;", "rank 0 or torchrun serves it"))}]"""]
    for rank in (0, 1):
        files = (f"rank{rank}.jsonl", f"rank{rank}.progress", f"rank{rank}.attendance", "log")
        said = ("the trace", "its step and phase now", "its process, under a launcher", "stdout and stderr")
        shown = ((name, small(text)) for name, text in zip(files, said))
        lines.append(f"""subgraph cluster_{rank} {{
  label=<<b>rank {rank}</b>, a process> style="rounded,filled" color="{LINE}" fillcolor="{PALE}"
  training{rank} [label={titled("training", ("DDP in lockstep-worker,", "or your train.py"))}]
  recorder{rank} [label={titled("recorder", ("a thread makes digests,", "another writes the file"))}]
  training{rank} -> recorder{rank} [label=" tensors "]
}}
files{rank} [fillcolor="{AMBER}" label={listed(shown)}]
server -> training{rank} [lhead=cluster_{rank}]
launcher -> training{rank} [style=dashed lhead=cluster_{rank}]
training{rank} -> store [style=dotted]
recorder{rank} -> files{rank} [ltail=cluster_{rank}]""")
    lines.append("""training0 -> training1 [dir=both label=" all-reduce " constraint=false]
""")
    return graph(lines)


GRAPHS = {"decision": decision, "launch": launch, "layers": layers, "step": step}
