"""Checks that imports between the modules of python/ go one way: none imports itself by way of others.

Those inside of functions count, too, and those that only types need: whoever reads a module reads what it names.
Exit codes: 0 there is no circle; 1 one is told; 2 there is nothing to check.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping, Sequence

from lib.repository import NothingJudged, root_in


def imports_of(name: str, text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """What a module imports; of a package, its own text only where something in that is named."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise NothingJudged(f"{name}: line {node.lineno}: write the path from the root")
            for inner in (f"{node.module}.{alias.name}" for alias in node.names):
                yield inner if inner in modules else f"{node.module}"


def circle_in(modules: Mapping[str, str]) -> list[str]:
    """Modules each of which imports the next, and the first again. `modules`: texts by name."""
    imports = {name: [to for to in imports_of(name, text, modules) if to in modules] for name, text in modules.items()}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return []


def main(arguments: Sequence[str]) -> int:
    """Takes the root of a checkout, or nothing."""
    folder = root_in(arguments) / "python"
    modules = {}
    for file in sorted(folder.rglob("*.py")):
        path = file.relative_to(folder)
        parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
        modules[".".join(parts)] = file.read_text(encoding="utf-8")
    if not modules:
        raise NothingJudged(f"no modules in {folder}")
    circle = circle_in(modules)
    if circle:
        print("a circle of imports:", " → ".join(circle))
    return 1 if circle else 0
