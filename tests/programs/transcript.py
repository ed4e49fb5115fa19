"""Commands that a page of Markdown shows, and whether what they print and end with is what the page says.

Blocks marked "console" hold both: a line "$ command", then all that it prints. A line "..." stands for any lines,
"…" within a line for any words. Durations, the number of records compared and the build's may be others.
"""

import re

#: What another recorder, machine or build prints otherwise.
VARYING = [(re.compile(r"\b\d+(?=  (agree|baseline|divergence)$)"), "#"),  # of records compared
           (re.compile(r"\b\d+(\.\d+)? (ms|s|min)\b"), "# s"), (re.compile(r"\bbuild [0-9a-f]{16}\b"), "build #")]

#: The exit code that goes with a verdict.
CODES = {"agree": 0, "divergence": 1, "baseline": 3, "inconclusive": 4}


def blocks_in(page, language):
    """The text of each block that is marked so; '' are those without a mark."""
    blocks = re.findall(r"^```(\S*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for mark, text in blocks if mark == language]


def commands_of(block):
    """(command, lines of its output)"""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def commands_in(page):
    """(command, lines of its output), over all transcripts."""
    return [command for block in blocks_in(page, "console") for command in commands_of(block)]


def code_of(shown):
    """The exit code of a command that prints these lines, if they hold its verdict."""
    for line in reversed(shown):
        verdict = re.match(rf"(?:\S+: )?({'|'.join(CODES)})(?:: \d|$)", line)
        if verdict:
            return CODES[verdict[1]]
    return None


def script_of(commands):
    """Runs them one after another in one shell, and marks where each ends."""
    mark = "mark() { local status=$?; printf '@@%d\\n' \"$status\"; return $status; }\n"
    return mark + "".join(f"{command}\nmark\n" for command in commands)


def answers_in(said):
    """(exit code, lines printed) of each command of the script."""
    parts = re.split(r"@@(\d+)\n", said)
    return [(int(code), lines.splitlines()) for lines, code in zip(parts[::2], parts[1::2])]


def steady(line):
    for pattern, text in VARYING:
        line = pattern.sub(text, line)
    return line.rstrip()


def matches(expected, actual):
    """Whether lines are those that the page shows."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in steady(line).split("…")) + r"\n"
    return re.fullmatch(pattern, "".join(steady(line) + "\n" for line in actual)) is not None


def difference(shown, code, actual):
    """Both sides, where a command does not do what the page says of it; else nothing."""
    promised = code_of(shown)
    if promised in (None, code) and matches(shown, actual):
        return ""
    return "\n".join(["expected:", *shown, f"actual, with exit code {code}:", *actual])
