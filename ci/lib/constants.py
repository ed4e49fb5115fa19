"""Checks that docs/constants.md lists every constant that decides: ci/constants [ROOT]

A constant is what a source file below the folders named here declares as `const` or `constexpr`, under a name like
kName, with a number in its value. It needs one row with its name, its file and its value, a meaning, a reason, and a
test or command. A test that is named must exist. A row needs its constant. Values in the table may be powers: 2^-18.
Of several numbers, the row lists all; a value that is made of other constants stands there as it is written. A table
of texts or functions is no constant: a number in it counts as one inside an expression.

A number inside an expression has no reason, so it needs a name: each floating one, and each whole one that is compared,
multiplied or divided by. 0, 1 and 2 are free, and so is 0.5.
Exit codes: 0 all hold; 1 some do not; 2 there is nothing to check.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Set

FOLDERS = ("recipe", "compare", "diagnosis", "laws", "decision", "experiment", "checks")
#: A generator whose numbers are its definition.
NOT_OURS = "recipe/seeds.cpp"
TABLE = "docs/constants.md"

HIDDEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'|^ *\#[^\n]*""",
                    re.DOTALL | re.MULTILINE)
TEMPLATE = re.compile(r"(?<=\w)<[^<>;(){}]*>")
CONSTANT = re.compile(r"(?<![\w:])(k[A-Z]\w*)\s*(?:\[[^\]]*\]\s*)?(?:=(?!=)|(?=\{))")
TABLE_OF_CASES = re.compile(r'"|\]\s*[({]')
HEXADECIMAL = r"0[xX][\da-fA-F']+(?:\.[\da-fA-F']*)?(?:[pP][+-]?\d+)?"
DECIMAL = r"(?:\d[\d']*\.?[\d']*|\.\d+)(?:[eE][+-]?\d+)?"
LITERAL = re.compile(rf"(?<![\w.])-?(?:{HEXADECIMAL}|{DECIMAL})[fFuUlLzZ]*(?![\w.])")
FLOATING = re.compile(r"[.pP]|^(?!-?0[xX]).*[eE]")
BEFORE, AFTER = re.compile(r"\s(?:[<>=!]=|[<>*/%])\s+$"), re.compile(r"\s(?:[<>=!]=|[<>*/%])\s")
FREE = {0.0, 1.0, 2.0, 0.5}
TEST = re.compile(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)")
ROW = re.compile(r"\|\s*`(k\w+)`\s*\|")
#: (line, value) of each constant by its file and name.
Declared = Mapping[tuple[str, str], tuple[int, str]]
CELLS = ("name", "file", "value", "unit", "meaning", "reason", "shown by")


def number(text: str) -> float | None:
    """The value of a literal, a fraction or a power; None where it is none."""
    text = text.strip().strip("`").replace("'", "").replace(",", "")
    try:
        if power := re.fullmatch(r"2\^(-?\d+)", text):
            return 2.0 ** int(power[1])
        if "/" in text:
            above, below = map(number, text.split("/"))
            return None if above is None or below is None else above / below
        if text.lstrip("-").lower().startswith("0x"):
            return float.fromhex(re.sub(r"[fFuUlLzZ]+$" if "p" in text.lower() else r"[uUlLzZ]+$", "", text))
        return float(re.sub(r"(?<=[\d.])[fFuUlLzZ]+$", "", text))
    except (ValueError, TypeError):
        return None


def blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces for what a pattern finds, so that places stay; of a string, its quotes stay."""
    return pattern.sub(lambda found: re.sub(r'(?!^"|"$)[^\n]', " ", found[0]), text)


def end_of(text: str, begin: int) -> int:
    """Where the value that begins there ends."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] in "({[") - (text[at] in ")}]")
        if depth < 0 or depth == 0 and text[at] in ",;":
            return at
    return len(text)


def declarations_of(shown: str) -> Iterator[tuple[int, int, str, str]]:
    """(begin, end, name, value) of every constant with a number in its value; the text has no comments and strings."""
    end = 0
    for found in CONSTANT.finditer(shown):
        statement = re.split(r"[;{}]", shown[:found.start()])[-1]
        follows = end > 0 and shown[end:found.start()].strip() == ","
        if found.start() < end or not (follows or re.search(r"\bconst(?:expr)?\b", statement)):
            continue
        end = end_of(shown, found.end())
        value = " ".join(shown[found.end():end].split())
        if LITERAL.search(value) and not TABLE_OF_CASES.search(value):
            yield found.start(), end, found[1], value


def constants_of(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, name, value) of every constant in a source file that has a number in its value."""
    shown = blank(TEMPLATE, blank(HIDDEN, text))
    for begin, _, name, value in declarations_of(shown):
        yield shown.count("\n", 0, begin) + 1, name, value


def nameless_of(text: str) -> Iterator[tuple[int, str]]:
    """(line, number) of every number that decides inside an expression."""
    shown = blank(TEMPLATE, blank(HIDDEN, text))
    for begin, end, _, _ in declarations_of(shown):
        shown = shown[:begin] + blank(re.compile(r".+", re.DOTALL), shown[begin:end]) + shown[end:]
    for found in LITERAL.finditer(shown):
        before = shown[shown.rfind("\n", 0, max(shown.rfind("\n", 0, found.start()), 0)) + 1:found.start()]
        decides = FLOATING.search(found[0]) or BEFORE.search(before) or AFTER.match(shown, found.end())
        value = number(found[0])
        if decides and (value is None or abs(value) not in FREE):
            yield shown.count("\n", 0, found.start()) + 1, found[0].lstrip("-")


def same_value(cell: str, value: str) -> bool:
    """Whether a row says what a declaration says."""
    cell = cell.replace("`", "")
    if number(value) is not None:
        return number(cell) == number(value)
    text = re.sub(r"static_cast|std::array|\s|[(){}]", "", value)
    numbers = [number(one) for one in re.split(r",", text) if one]
    if None not in numbers:
        return [number(one) for one in cell.split(", ")] == numbers
    return "".join(cell.split()) == "".join(value.split())


def rows_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row about a constant."""
    for line, row in enumerate(text.splitlines(), 1):
        if ROW.match(row):
            yield line, [cell.strip() for cell in row.strip().strip("|").split("|")]


def row_problems(place: str, cells: list[str], declared: Declared, tests: Set[str]) -> Iterator[str]:
    """What is wrong with one row, a line each."""
    name, file = cells[0].strip("`"), cells[1].strip("`")
    for what, cell in zip(CELLS, cells):
        if not cell:
            yield f"{place}: {name} has no {what}"
    if (file, name) not in declared:
        yield f"{place}: harness/{file} declares no {name}; delete the row, or mend its name or file"
        return
    value = declared[file, name][1]
    if not same_value(cells[2], value):
        yield f"{place}: {name} is {value} in harness/{file}, the table says {cells[2]}"
    for test in re.findall(r"`(\w+\.\w+)`", cells[-1]):
        if test not in tests:
            yield f"{place}: there is no test {test}"


def problems_of(sources: Mapping[str, str], table: str, tests: Set[str]) -> Iterator[str]:
    """What is wrong, a line each. `sources`: text by path below harness/; `tests`: names of all tests."""
    declared = {(file, name): (line, value)
                for file, text in sources.items() for line, name, value in constants_of(text)}
    listed = set()
    for line, cells in rows_of(table):
        place = f"{TABLE}:{line}"
        if len(cells) != len(CELLS):
            yield f"{place}: {len(cells)} cells, expected {len(CELLS)}: {', '.join(CELLS)}"
            continue
        key = (cells[1].strip("`"), cells[0].strip("`"))
        if key in listed:
            yield f"{place}: {key[1]} of {key[0]} has a row already"
        listed.add(key)
        yield from row_problems(place, cells, declared, tests)
    for (file, name), (line, value) in declared.items():
        if (file, name) not in listed:
            yield f"harness/{file}:{line}: {name} = {value} has no row in {TABLE}"
    for file, text in sources.items():
        for line, value in nameless_of(text):
            yield f"harness/{file}:{line}: {value} has no name; declare a constant kName, and give it a row in {TABLE}"


def read(path: pathlib.Path) -> str:
    """Its text."""
    return path.read_text(encoding="utf-8")


def main(root: pathlib.Path) -> int:
    """Judges a checkout; the exit code."""
    files = [file for folder in FOLDERS for file in sorted((root / "harness" / folder).rglob("*.[hc]*"))
             if not str(file).endswith(NOT_OURS)]
    if not files or not (root / TABLE).is_file():
        print(f"ci/constants: no sources in {root}/harness, or no {TABLE}", file=sys.stderr)
        return 2
    sources = {file.relative_to(root / "harness").as_posix(): read(file) for file in files}
    tests = {".".join(found) for file in (root / "tests").glob("**/*.cpp") for found in TEST.findall(read(file))}
    problems = list(problems_of(sources, read(root / TABLE), tests))
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0
