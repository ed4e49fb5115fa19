#!/usr/bin/env python3
"""Committed goldens hold on other processors: tests/reliability/emulated.py [--write] [SCENARIO...]

The gate of lockstep's worker and the recorded tutorial run here, then with every rank in QEMU's user-mode emulation of
other models. All are compared with the same goldens. Prints the table of docs/goldens.md; --write puts it there. Needs
qemu-user, and torchrun of torch 2.11.0 in PATH. Exit code 77: one of them is missing; 1: a golden does not hold.

An emulator computes rsqrtps exactly and knows no AVX-512: it stands for other kernels, not for another silicon.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from training import LOCKSTEP

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMULATOR = "qemu-x86_64"
SCENARIOS = ("scenarios/gate", "scenarios/programs")
MODELS = {"this machine": "", "Haswell": "Intel, AVX2", "EPYC-Rome": "AMD, AVX2"}
PAGE, BEGIN, END = ROOT / "docs/goldens.md", "<!-- emulated -->\n", "<!-- emulated ends -->\n"


def script(file: pathlib.Path, model: str, program: pathlib.Path) -> pathlib.Path:
    file.write_text(f'#!/bin/sh\nexec {EMULATOR} -cpu {model} {program} "$@"\n')
    file.chmod(0o755)
    return file


def judged(scenario: str, model: str, folder: pathlib.Path) -> str:
    """The verdict of a scenario, or of a folder of them, with every rank on a model of processor."""
    words, environment = [LOCKSTEP, "run", scenario, "--report", f"json={folder / 'report.json'}"], dict(os.environ)
    if model != "this machine":
        worker = script(folder / "worker", model, LOCKSTEP.parent / "lockstep-worker")
        words += ["--worker", worker]
        environment["PYTHON_EXEC"] = str(script(folder / "python", model, pathlib.Path(shutil.which("python3"))))
    ended = subprocess.run(list(map(str, words)), cwd=ROOT, env=environment, capture_output=True, text=True)
    last = (ended.stdout.strip() or ended.stderr.strip()).splitlines()[-1]
    print(f"{scenario}, {model}: exit code {ended.returncode}, {last}", file=sys.stderr, flush=True)
    if ended.returncode != 0:
        print(ended.stdout[-4000:], ended.stderr[-2000:], file=sys.stderr)
    return re.sub(r", [\d.]+ s$", "", last) if ended.returncode == 0 else f"**{last}**"


def main() -> int:
    words = sys.argv[1:]
    is_written = "--write" in words
    scenarios = [word for word in words if word != "--write"] or SCENARIOS
    if shutil.which(EMULATOR) is None or shutil.which("torchrun") is None:
        print(f"needs {EMULATOR} (Debian: qemu-user) and torchrun in PATH", file=sys.stderr)
        return 77
    rows = ["| processor | " + " | ".join(f"`{scenario}`" for scenario in scenarios) + " |",
            "|---|" + "---|" * len(scenarios)]
    with tempfile.TemporaryDirectory() as folder:
        for model, kind in MODELS.items():
            verdicts = [judged(scenario, model, pathlib.Path(folder)) for scenario in scenarios]
            rows.append(f"| {model}{' (' + kind + ')' if kind else ''} | " + " | ".join(verdicts) + " |")
    table = "\n".join(rows) + "\n"
    print(table, end="")
    if is_written:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])
    return 1 if "**" in table else 0


if __name__ == "__main__":
    sys.exit(main())
