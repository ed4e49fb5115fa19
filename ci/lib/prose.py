"""Measures the sentences of the documentation and of header comments: ci/prose [ROOT]

Files: *.md in the root, in docs/ and in harness/, and the doc comments (///) of *.h in harness/. A sentence has at most
40 words, those of a file 18 on average. None has "What …" as its subject, and none begins with "Of a …", "That of …"
or "The same of …": it lacks subject or verb. No page, and no string of *.cpp and *.h in harness/, has an idiom of
IDIOMS, such as "nobody knows" for "unknown". README.md has at most 200 lines. Left out are
code blocks, headings and generated files ("Written by `…`"). A table's cell, and a comment behind a member (///<), only
have to be short enough. Exit codes: 0 all hold; 1 some do not; 2 there is nothing to measure.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

FILES = ("*.md", "docs/*.md", "harness/**/*.md", "harness/**/*.h")
SOURCES = ("harness/**/*.h", "harness/**/*.cpp")
#: It quotes what it refuses.
QUOTES_IDIOMS = "docs/style.md"
MOST_WORDS = 40
MOST_ON_AVERAGE = 18
MOST_LINES_OF_README = 200

END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[^a-z\s])")
#: Beginnings of sentences that have no subject, or no verb.
FRAGMENT = re.compile(r"(Of (a|an|the|it|its|what|which|several|programs|so many)|That of|Those of|The same of)\b")
#: Words for which the field has a better one, and that one.
IDIOMS = (
    (re.compile(r"\bnobody\b", re.IGNORECASE), "unknown, unused, not recorded"),
    (re.compile(r"\b(is|are|was|were|be|been|not) told\b(?! to\b)", re.IGNORECASE), "reported, judged, recorded"),
    (re.compile(r"\b(said|tells?|told) of\b", re.IGNORECASE), "reports, shows"),
    (re.compile(r"\bheld against\b", re.IGNORECASE), "compared with"),
    (re.compile(r"\bof one's own\b", re.IGNORECASE), "your own, its own"),
)
#: A string, a character or a comment of C++.
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*')
START_OF_BLOCK = re.compile(r"\s*([-*+]|\d+\.)\s+")


def plain(text: str) -> str:
    """Text as it is read: a link is its words, a piece of code is one word."""
    text = re.sub(r"`[^`]+`", "CODE", text)
    text = re.sub(r"<https?://[^>]+>", "LINK", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def blocks(text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a table's cell) of each paragraph, item and cell, outside of code and headings."""
    paragraph: list[str] = []
    begin, fenced = 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        is_fence = line.lstrip().startswith("```")
        starts = START_OF_BLOCK.match(line)
        ends = is_fence or fenced or starts or not line.strip() or line.startswith(("#", "|"))
        if ends and paragraph:
            yield begin, plain(" ".join(paragraph)), False
            paragraph = []
        if is_fence:
            fenced = not fenced
        elif fenced or line.startswith("#"):
            continue
        elif line.startswith("|"):
            for cell in plain(line).strip("| ").split(" | "):
                yield number, cell, True
        elif line.strip():
            begin = begin if paragraph else number
            paragraph.append(line[starts.end():] if starts else line.strip())


def comments(text: str) -> Iterator[tuple[int, str, bool]]:
    """Blocks of the doc comments in a header: (line, text, whether it stands behind a member)."""
    markdown = []  # the lines of text above a declaration, each in its place; all others are empty
    for number, line in enumerate(text.splitlines(), 1):
        code, found, comment = line.partition("///")
        behind = found and comment.startswith("<")
        if behind:
            yield number, plain(comment[1:].strip()), True
        markdown.append("" if not found or behind or code.strip() else comment.strip())
    yield from blocks("\n".join(markdown))


def strings(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each string of C++; strings with nothing but space between them are one."""
    line, joined, end = 0, "", -1
    for token in TOKEN.finditer(text):
        if not token[0].startswith('"'):
            continue
        if joined and text[end:token.start()].strip():
            yield line, joined
            joined = ""
        line = line if joined else text.count("\n", 0, token.start()) + 1
        joined += token[0][1:-1]
        end = token.end()
    if joined:
        yield line, joined


def idioms_of(name: str, text: str) -> Iterator[str]:
    """Idioms in a page, or in the strings of a source, a line each."""
    is_page = name.endswith(".md")
    for line, said in ((line, block) for line, block, _ in blocks(text)) if is_page else strings(text):
        for pattern, better in IDIOMS:
            found = pattern.search(said)
            if found and name != QUOTES_IDIOMS and " " in said:
                yield f"{name}:{line}: '{found[0]}', better: {better}"


def words_of(sentence: str) -> list[str]:
    """Without dashes and the like."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def problems_of(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file, a line each."""
    if name == "README.md" and len(text.splitlines()) > MOST_LINES_OF_README:
        yield f"{name}: {len(text.splitlines())} lines, at most {MOST_LINES_OF_README} are allowed"
    lengths = []
    for line, block, is_cell in comments(text) if name.endswith(".h") else blocks(text):
        for sentence in END_OF_SENTENCE.split(block):
            length = len(words_of(sentence))
            shown = " ".join(sentence.split()[:8])
            if length > MOST_WORDS:
                yield f"{name}:{line}: a sentence of {length} words, at most {MOST_WORDS} are allowed: {shown} …"
            if sentence.startswith("What ") and not sentence.endswith("?"):
                yield f"{name}:{line}: a sentence has 'What …' as its subject: {shown} …"
            if FRAGMENT.match(sentence) and not is_cell:
                yield f"{name}:{line}: a sentence without subject or verb: {shown} …"
            if length and not is_cell:
                lengths.append(length)
    average = sum(lengths) / max(1, len(lengths))
    if average > MOST_ON_AVERAGE:
        yield f"{name}: {average:.1f} words in a sentence on average, at most {MOST_ON_AVERAGE} are allowed"


def is_generated(text: str) -> bool:
    """Whether a program wrote it, as its head says."""
    return "Written by `" in text[:500]


def main(root: pathlib.Path) -> int:
    """Judges a checkout; the exit code."""
    files = [file for pattern in FILES for file in sorted(root.glob(pattern))]
    if not files:
        print(f"ci/prose: no *.md and no header in {root}", file=sys.stderr)
        return 2
    failed = False
    for file in files:
        text = file.read_text(encoding="utf-8")
        for problem in () if is_generated(text) else problems_of(file.relative_to(root).as_posix(), text):
            print(problem)
            failed = True
    pages = [file for file in files if file.suffix == ".md"]
    for file in pages + [file for pattern in SOURCES for file in sorted(root.glob(pattern))]:
        text = file.read_text(encoding="utf-8")
        for problem in () if is_generated(text) else idioms_of(file.relative_to(root).as_posix(), text):
            print(problem)
            failed = True
    return 1 if failed else 0
