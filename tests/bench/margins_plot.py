"""The chart of margins.py: distance over bound, on a logarithmic axis, a row for each layer, optimizer and fault.

Nothing but text, so that two versions can be compared.
"""

import collections
import html
import math

LEFT, WIDTH, ROW, TOP = 330, 520, 15, 40
LEAST, MOST = -7, 5  # decimal exponents of the axis


def x_of(ratio):
    exponent = min(max(math.log10(ratio), LEAST), MOST) if ratio > 0 else LEAST
    return LEFT + WIDTH * (exponent - LEAST) / (MOST - LEAST)


def text(x, y, said, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{html.escape(said)}</text>'


def rows_of(result):
    """(label, median or None, p99 or None, largest) from top to bottom; a label alone is a heading."""
    groups = collections.defaultdict(list)
    for row in result["clean"]:
        groups[row["layer"], row["optimizer"]].append(row)
    layer_before = None
    for (layer, optimizer), rows in sorted(groups.items()):
        if layer != layer_before:
            yield f"clean pairs: {layer}", None, None, None
        layer_before = layer
        worst = max(rows, key=lambda row: row["max"])  # the channel that comes nearest to its bound
        yield f"{optimizer}, {worst['channel']}", worst["median"], worst["p99"], worst["max"]
    yield "faults of the smallest dose, against the clean run", None, None, None
    for row in result["doses"]:
        yield row["what"], None, None, row["ratio"]


def svg(result):
    rows = list(rows_of(result))
    height = TOP + ROW * len(rows) + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
             'font-family="sans-serif" font-size="10">', '<rect width="100%" height="100%" fill="white"/>',
             text(LEFT, 12, "distance / bound: tick median, bar up to the 99th percentile, dot largest")]
    for exponent in range(LEAST, MOST + 1):
        x = x_of(10.0**exponent)
        color = "#c00" if exponent == 0 else "#ddd"
        parts += [f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{height - 15}" stroke="{color}"/>',
                  text(x, TOP - 12, f"1e{exponent}" if exponent else "bound", 'text-anchor="middle"')]
    for number, (label, median, p99, most) in enumerate(rows):
        y = TOP + ROW * number + 10
        if most is None:
            parts.append(text(5, y, label, 'font-weight="bold"'))
            continue
        parts.append(text(LEFT - 8, y, label if len(label) < 62 else label[:60] + " …", 'text-anchor="end"'))
        color = "#c00" if most > 1 else "#247"
        if median is not None:
            a, b = x_of(median), x_of(p99)
            parts += [f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y - 3}" y2="{y - 3}" stroke="{color}" stroke-width="3"/>',
                      f'<line x1="{a:.1f}" x2="{a:.1f}" y1="{y - 8}" y2="{y + 2}" stroke="{color}"/>']
        parts.append(f'<circle cx="{x_of(most):.1f}" cy="{y - 3}" r="3" fill="{color}"/>')
    return "\n".join(parts + ["</svg>"]) + "\n"
