"""Mutation testing of lockstep itself: builds each mutation of tests/mutants/mutants.txt, and runs the tests on it.

    tests/mutants/run [--check] [--jobs N] [--only TEXT…]

A mutation changes one place of one line. Its file is compiled alone, and linked into the programs of build/ in place of
the one that it changes; build/ itself stays as it is. The tests run from the quickest on, up to the first one that
fails, crashes or takes too long: that one kills the mutation. One that no test kills needs a reason in the list.

Exit codes: 0 at least 95 % are killed, and each other one has a reason; 1 not so; 2 nothing was judged: a mutation has
lost its place or does not compile, or a test fails without any.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import queue
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence

from lib.repository import ROOT, NothingJudged

LIST = pathlib.Path("tests/mutants/mutants.txt")
FOLDERS = ("compare", "golden", "decision", "judge")
LEAST_KILLED = 0.95
# Test programs that link the folders, from the quickest to the slowest. That of a mutation's own folder runs first.
UNIT_TESTS = ("decision", "app", "compare", "report", "judge", "checks", "diagnosis", "experiment", "audit", "golden")
# Of test_golden: a file layer that fails at each operation of the command.
CRASHES = "Of*Kind*/*:ManyWriters.*"
# Commands as people run them, for what no unit test sees.
END_TO_END = "GoldenRoot*:Judge*"
PROGRAMS = ("lockstep", "test_end_to_end", *(f"test_{name}" for name in UNIT_TESTS))
OF_A_FILE = ("-MT", "-MF", "-o", "-c")  # options of a compiler, before a file's name


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mutation, as the list has it."""

    file: str
    before: str
    after: str
    survives: str = ""  # why no test can kill it

    @property
    def folder(self) -> str:
        """"golden"."""
        return self.file.split("/")[1]

    def line_in(self, source: str) -> int:
        """The line that it changes."""
        return source.count("\n", 0, source.index(self.before)) + 1

    def made(self, source: str) -> str:
        """The file with the mutation."""
        return source.replace(self.before, self.after)

    def text(self) -> str:
        return f"{self.file}: {self.before}  ->  {self.after}"


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a mutation. `by`: the test that killed it; empty: it survived."""

    mutant: Mutant
    line: int
    by: str

    def row(self) -> str:
        end = f"killed by {self.by}" if self.by else f"survives: {self.mutant.survives or 'WITHOUT A REASON'}"
        return f"{self.mutant.file}:{self.line}: {self.mutant.before}  ->  {self.mutant.after}\n    {end}"


def mutants_in(text: str) -> list[Mutant]:
    """The mutations of a list."""
    mutants: list[Mutant] = []
    file = before = ""
    for number, line in enumerate(text.splitlines(), 1):
        kind, rest = line[:2], line[2:]
        if kind == "- " and file and not before:
            before = rest
        elif kind == "+ " and before:
            mutants.append(Mutant(file, before, rest))
            before = ""
        elif kind == "= " and mutants and not before:
            mutants[-1] = dataclasses.replace(mutants[-1], survives=rest)
        elif line.startswith("harness/") and not before:
            file = line
        elif before or (line and not line.startswith("#")):
            raise NothingJudged(f"{LIST}, line {number}: cannot be read: {line}")
    return mutants


def obstacles(mutants: Iterable[Mutant], root: pathlib.Path) -> list[str]:
    """Mutations that have no place any more, or more than one."""
    found = []
    seen = set()
    for mutant in mutants:
        where = f"{mutant.file}: '{mutant.before}'"
        source = root / mutant.file
        count = source.read_text(encoding="utf-8").count(mutant.before) if source.is_file() else 0
        if count != 1:
            found.append(f"{where} stands there {count} times, not once")
        elif mutant.before == mutant.after or (mutant.file, mutant.before, mutant.after) in seen:
            found.append(f"{where} is no mutation of its own")
        seen.add((mutant.file, mutant.before, mutant.after))
    return found


def is_enough(results: Sequence[Result]) -> bool:
    """Whether so many are killed, and each other one has a reason, which none of the killed has."""
    killed = [result for result in results if result.by]
    return len(killed) >= LEAST_KILLED * len(results) and all(
        bool(result.by) != bool(result.mutant.survives) for result in results)


class Build:
    """build/, and the commands that made its programs."""

    def __init__(self) -> None:
        subprocess.run([str(ROOT / "ci/build"), "lockstep-worker", *PROGRAMS], check=True)
        self.folder = ROOT / "build"
        self._lock = (self.folder / ".lock").open()  # ci/build takes it: no object may change while tests are linked
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.scratch = self.folder / "mutants"
        self._compilers = {name: self._compiler(f"lockstep_{name}", f"/lockstep_{name}.dir/") for name in FOLDERS}
        self._support = self._compiler("lockstep_test_support", "/support.cpp.o")
        self._linkers = {name: self._linker(name) for name in PROGRAMS}
        self._objects: list[pathlib.Path] = []

    def compile_all(self, jobs: int) -> None:
        """Compiles the files of all folders one by one: the build itself compiles several as one."""
        sources = [file for name in FOLDERS for file in sorted((ROOT / "harness" / name).glob("*.cpp"))]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            self._objects = list(pool.map(lambda source: self._compiled(source, self.scratch / "objects"), sources))

    def object_with(self, mutant: Mutant) -> pathlib.Path:
        """Compiles a mutation."""
        name = hashlib.sha256(mutant.text().encode()).hexdigest()[:12]
        source = self.scratch / "sources" / name / mutant.file
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(mutant.made((ROOT / mutant.file).read_text(encoding="utf-8")), encoding="utf-8")
        return self._compiled(source, self.scratch / "sources" / name)

    def support_for(self, lockstep: pathlib.Path) -> pathlib.Path:
        """The part of the tests that knows where lockstep is."""
        words = [f'-DLOCKSTEP_PROGRAM="{lockstep}"' if word.startswith("-DLOCKSTEP_PROGRAM=") else word
                 for word in self._support]
        made = lockstep.with_name("support.o")
        self._run([*words, "-o", str(made), "-c", str(ROOT / "tests/support/support.cpp")], "tests/support")
        return made

    def link(self, program: str, place: pathlib.Path, support: pathlib.Path, mutated: pathlib.Path | None) -> None:
        """Links a program, with one object in place of the one of the same name."""
        objects = [str(mutated if mutated and mutated.parts[-2:] == each.parts[-2:] else each)
                   for each in self._objects]
        archives = {f"harness/liblockstep_{name}.a" for name in FOLDERS}
        is_mutated = archives.issubset(self._linkers[program])  # test_end_to_end is not: it runs a lockstep that is
        words = []
        for word in self._linkers[program]:
            if is_mutated and word in archives:
                words += objects
                objects = []
            elif word == f"bin/{program}":
                words += [str(place), *([str(support)] if program != "lockstep" else [])]
            else:
                words.append(word)
        self._run(words, program)

    def _compiled(self, source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
        """The object of a file: its last folder and name, below a folder."""
        made = folder / source.parent.name / source.with_suffix(".o").name
        made.parent.mkdir(parents=True, exist_ok=True)
        self._run([*self._compilers[source.parent.name], "-w", "-o", str(made), "-c", str(source)], str(source))
        return made

    def _commands(self, target: str) -> list[list[str]]:
        said = subprocess.run(["ninja", "-C", str(self.folder), "-t", "commands", target], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        return [shlex.split(part) for line in said.splitlines() for part in line.split(" && ")]

    def _compiler(self, target: str, of_file: str) -> list[str]:
        """The command for a file of a target, without the file's name."""
        for words in self._commands(target):
            if "-c" in words and of_file in words[words.index("-o") + 1]:
                rest = iter(words)
                return [word for word in rest if word != "-MD" and not (word in OF_A_FILE and next(rest))]
        raise NothingJudged(f"{self.folder} has no command for {target}")

    def _linker(self, program: str) -> list[str]:
        return next(words for words in self._commands(program) if f"bin/{program}" in words)

    def _run(self, words: Sequence[str], what: str) -> None:
        ended = subprocess.run(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", check=False)
        if ended.returncode != 0:
            raise NothingJudged(f"{what}: it cannot be built:\n{ended.stdout[-3000:]}")


@dataclasses.dataclass(frozen=True)
class Test:
    """A command that a mutation must make fail: a part of a test program, or the gate's selftest."""

    program: str
    part: str = ""
    needs_lockstep: bool = False

    @property
    def arguments(self) -> list[str]:
        if self.program == "lockstep":
            return ["gate", "--selftest", "--quiet"]
        return ["--gtest_fail_fast", f"--gtest_filter={self.part}"]

    def name_of_failure(self, output: str) -> str:
        """The first test that gtest calls failed, or the one that ran when it crashed."""
        if self.program == "lockstep":
            return "lockstep gate --selftest"
        failed = re.search(r"^\[  FAILED  \] ([\w./]+)", output, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        return failed[1] if failed else begun[-1] if begun else self.program


def tests_for(folder: str) -> list[Test]:
    """Those of the folder first, then the others from the cheapest on."""
    names = sorted(UNIT_TESTS, key=lambda name: name != folder)
    return [*(Test(f"test_{name}", f"-{CRASHES}") for name in names),
            Test("test_golden", CRASHES, needs_lockstep=True),
            Test("lockstep", needs_lockstep=True),
            Test("test_end_to_end", END_TO_END, needs_lockstep=True)]


class Bench:
    """A folder where one mutation at a time is linked and tested."""

    def __init__(self, build: Build, number: int) -> None:
        self._build = build
        self._folder = build.scratch / f"bench{number}/bin"
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in ("bin/lockstep-worker", "python"):  # which lockstep looks for beside itself
            place = self._folder.parent / file
            place.unlink(missing_ok=True)
            place.symlink_to(build.folder / file)
        self._support = build.support_for(self._folder / "lockstep")

    def killer(self, tests: Iterable[Test], mutated: pathlib.Path | None, limits: dict[Test, float]) -> str:
        """The test that fails; empty: none. `limits`: seconds that each may take; those it lacks are measured."""
        linked: set[str] = set()
        for test in tests:
            for program in ("lockstep", test.program) if test.needs_lockstep else (test.program,):
                if program not in linked:
                    self._build.link(program, self._folder / program, self._support, mutated)
                    linked.add(program)
            begin = time.monotonic()
            if why := self._failure(test, limits.get(test)):
                return why
            limits.setdefault(test, 30 + 10 * (time.monotonic() - begin))
        return ""

    def _failure(self, test: Test, limit_s: float | None) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_TEST")}
        scratch = tempfile.mkdtemp(prefix="lockstep-mutant-")
        command = [str(self._folder / test.program), *test.arguments]
        try:
            with subprocess.Popen(command, cwd=ROOT, env={**environment, "TMPDIR": scratch}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  start_new_session=True) as process:
                try:
                    output = process.communicate(timeout=limit_s)[0]
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    return f"{test.name_of_failure(process.communicate()[0])} (took longer than {limit_s:.0f} s)"
            return test.name_of_failure(output) if process.returncode != 0 else ""
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def judged(mutants: Sequence[Mutant], build: Build, jobs: int) -> Iterator[Result]:
    """Tests all mutations, as many at once as asked for."""
    build.compile_all(jobs)
    benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for number in range(jobs):
        benches.put(Bench(build, number))
    limits: dict[Test, float] = {}
    bench = benches.get()
    if failed := bench.killer(tests_for(FOLDERS[0]), None, limits):
        raise NothingJudged(f"without any mutation, this test fails: {failed}")
    benches.put(bench)

    def result(mutant: Mutant) -> Result:
        mutated = build.object_with(mutant)
        bench = benches.get()
        try:
            by = bench.killer(tests_for(mutant.folder), mutated, limits)
        finally:
            benches.put(bench)
        return Result(mutant, mutant.line_in((ROOT / mutant.file).read_text(encoding="utf-8")), by)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(result, mutants)


def main(arguments: Sequence[str]) -> int:
    """Prints the table of what became of the mutations."""
    parser = argparse.ArgumentParser(prog="tests/mutants/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look whether each mutation still has its place")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutations that are tested at once")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="take only mutations whose file or text holds one")
    options = parser.parse_args(arguments)
    mutants = mutants_in((ROOT / LIST).read_text(encoding="utf-8"))
    if lost := obstacles(mutants, ROOT):
        raise NothingJudged("\n".join(["these mutations must be written anew:", *lost]))
    if options.check:
        return 0
    chosen = [one for one in mutants if not options.only or any(text in one.text() for text in options.only)]
    begin = time.monotonic()
    results = []
    for result in judged(chosen, Build(), options.jobs):
        print(result.row(), flush=True)
        results.append(result)
    killed = sum(bool(result.by) for result in results)
    print(f"{killed} of {len(results)} mutations killed, in {time.monotonic() - begin:.0f} s")
    return 0 if is_enough(results) else 1
