"""Finds functions of one file that hide a header's: ci/hidden [ROOT]

The files of a folder are compiled together. A function in a file's unnamed namespace that has the name of one in a
header of its folder or of harness/base hides that one from the files that follow, which may call the wrong one. Equal
signatures do not compile, others do.
Exit codes: 0 none hides another; 1 some do; 2 there is nothing to check.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator, Mapping

#: What a function of the repository's style begins with: its type at the line's begin, its name, its parameters.
FUNCTION = re.compile(r"^(?!using|return|else|namespace|TEST|#)[A-Za-z_](?:[\w:<>,&*\[\] ]|\n(?= ))*?[\s&*>](\w+)\(",
                      re.MULTILINE)
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace\n", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*")
TOPS = ("harness", "tests")


def functions_in(text: str) -> set[str]:
    """Names of the functions that are declared or defined at the beginning of a line."""
    return set(FUNCTION.findall(COMMENT.sub("", text)))


def own_functions(text: str) -> set[str]:
    """Names of the functions in a file's unnamed namespaces."""
    return {name for part in UNNAMED.findall(text) for name in functions_in(part)}


def hidden(files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(file, function, header), for each function of a file that hides a header's; `files`: texts by path."""
    headers = {path: functions_in(text) for path, text in files.items() if path.endswith(".h")}
    for path, text in sorted(files.items()):
        if not path.endswith(".cpp"):
            continue
        top, folder, *_ = path.split("/")
        seen = (f"{top}/{folder}/", "harness/base/")
        own = own_functions(text)
        for header, names in sorted(headers.items()):
            if header.startswith(seen):
                yield from ((path, name, header) for name in sorted(own & names))


def main(root: pathlib.Path) -> int:
    """Judges a checkout; the exit code."""
    files = {str(path.relative_to(root)): path.read_text(encoding="utf-8")
             for top in TOPS for path in (root / top).rglob("*") if path.suffix in (".h", ".cpp")}
    if not any(own_functions(text) for text in files.values()):
        print(f"ci/hidden: no function of a file of its own in {root}", file=sys.stderr)
        return 2
    found = list(hidden(files))
    for path, name, header in found:
        print(f"{path}: its own {name}() hides that of {header}: give it another name")
    return 1 if found else 0
