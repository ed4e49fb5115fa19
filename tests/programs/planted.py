"""Plants mistakes in users' programs and counts what lockstep tells of them: planted.py [--part 2/8] [NAME …]

Each bugs/<program>/<bug>.patch begins with what it should be judged as. The program as it is and the patched one are
recorded by `lockstep record` and compared by `lockstep diff`. Where the patch names checks, the patched program alone
is run as a scenario, too. Clean variations have to agree, or to differ by rounding whose cause diff names. Exit code 1:
something was judged wrongly. Causes are counted and decide nothing.
"""

import argparse
import concurrent.futures
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from clean import PROGRAMS, ROUNDING, VARIATIONS, Side
from programs import HERE, LOCKSTEP, environment, filled, free_port, missing, write_images

DIVERGENCE = 1


class Bug:
    """A patch and what its first line says of it."""

    def __init__(self, path):
        self.path, self.program = path, path.parent.name
        self.name = f"{self.program}/{path.stem}"
        first = path.read_text().partition("\n")[0]
        said = dict(field.split(": ", 1) for field in first.removeprefix("# ").split("; "))
        self.cause, self.kind, self.at = said.pop("cause"), said.pop("class"), said.pop("at")
        self.checks = said.pop("checks", "").split()
        self.arguments = said.pop("arguments", "").split()
        self.prepare = said.pop("prepare", "").split()
        self.alone = said.pop("alone", "")  #: the law that one run breaks, and the cause: of alone.py
        if said:
            sys.exit(f"{path}: unknown {', '.join(said)}")


def bugs_of_programs():
    """All bugs but those of programs that are started otherwise (layouts_bugs.py)."""
    return [Bug(path) for path in sorted((HERE / "bugs").glob("*/*.patch")) if path.parent.name in PROGRAMS]


class Workshop:
    """Where programs run: one folder, and in it one for each training."""

    def __init__(self, folder):
        self.folder = folder
        self.images = write_images(folder / "images")

    def place(self, name):
        path = self.folder / name
        path.mkdir(parents=True)
        return path

    def words(self, program, arguments, **values):
        return filled([*PROGRAMS[program]["arguments"], *arguments], images=self.images, **values)

    def command(self, side, script, world_size):
        if side.launcher == "torchrun":
            return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", world_size, "--master-port",
                    free_port(), script]
        return [sys.executable, *([] if side.launcher == "own" else [HERE / "start.py", world_size]), script]

    def train(self, name, program, script, side=Side(), record=True):  # noqa: B008 (nobody changes it)
        """Runs a training; returns the folder of its traces."""
        place = self.place(name)
        world_size = side.world_size or PROGRAMS[program]["world_size"]
        command = [*side.before, *self.command(side, script, world_size),
                   *self.words(program, side.arguments, folder=place, port=free_port())]
        if record:
            command = [LOCKSTEP, "record", "--out", place / "run", *side.options, "--", *command]
        ended = subprocess.run(list(map(str, command)), cwd=place, capture_output=True, text=True,
                               env=environment(**side.environment), timeout=1500)
        if ended.returncode != 0:
            raise RuntimeError(f"{name}: exit code {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}")
        return place / "run"

    def patched(self, bug):
        script = self.place(f"{bug.name}/patched") / "train.py"
        shutil.copy(HERE / bug.program / "train.py", script)
        subprocess.run(["patch", "--silent", "--no-backup-if-mismatch", script, bug.path], check=True)
        return script

    def prepared(self, bug):
        """A checkpoint of the program as it is, in a folder of its own for each training that goes on from it."""
        if not bug.prepare:
            return ""
        run = self.train(f"{bug.name}/prepared", bug.program, HERE / bug.program / "train.py",
                         Side(arguments=bug.prepare), record=False)
        return run.parent

    def judge(self, bug):
        script, prepared = self.patched(bug), self.prepared(bug)
        runs = []
        for name, source in (("healthy", HERE / bug.program / "train.py"), ("faulty", script)):
            arguments = self.resuming(bug, prepared, name)
            runs.append(self.train(f"{bug.name}/{name}", bug.program, source, Side(arguments=arguments)))
        code, found = diff(*runs)
        return {"bug": bug, "code": code, "found": found, "alone": self.alone(bug, script, prepared)}

    def resuming(self, bug, prepared, name):
        """The bug's arguments; resumed trainings overwrite what they load, so that each has a copy."""
        target = self.folder / bug.name / f"prepared-{name}"
        if prepared:
            shutil.copytree(prepared, target)
        return [word.replace("{prepared}", str(target)) for word in bug.arguments]

    def alone(self, bug, script, prepared):
        """What checks find that need no healthy twin: (check, status, cause)."""
        if not bug.checks:
            return []
        scenario = {"checks": list(map(check, bug.checks))}
        if "repeatable" in bug.checks:
            scenario["repeats"] = 2
        result = self.run(f"{bug.name}/alone", bug.program, script, self.resuming(bug, prepared, "alone"), scenario)
        return [(found["relation"], found["status"], found["cause"]) for found in result["checks"]]

    def run(self, name, program, script, arguments, parts):
        """Runs a scenario of a program; `parts`: what it says beside the program."""
        place = self.place(name)
        command = [*self.command(Side(), script, "{world_size}"),
                   *self.words(program, arguments, folder="{folder}", port="{port}")]
        scenario = {"name": pathlib.Path(name).parent.name, "description": f"Is {name} found in one run?",
                    "world_size": PROGRAMS[program]["world_size"], "program": {
                        "command": list(map(str, command)), "environment": {"OMP_NUM_THREADS": "1"}},
                    "promises": PROGRAMS[program].get("promises", {}), **parts}
        (place / "scenario.json").write_text(json.dumps(scenario, indent=1))
        ended = subprocess.run([LOCKSTEP, "run", "scenario.json", "--json", "result.json"], cwd=place,
                               capture_output=True, text=True, env=environment(), timeout=1500)
        if not (place / "result.json").exists():
            raise RuntimeError(f"{name}: exit code {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}")
        return json.loads((place / "result.json").read_text())

    def judged(self, item):
        return self.judge(item) if isinstance(item, Bug) else item.why_not(self)

    def rounds(self, variation):
        """Why variants that may differ by rounding alone do not agree; nothing if they do."""
        names = list(variation.variants)
        result = self.run(f"clean/{variation.name}", variation.program, HERE / variation.program / "train.py", [],
                          {"variants": variation.variants, "checks": [{"that": "rounding", "variants": names}]})
        [found] = result["checks"]
        return "" if found["status"] == "agree" else f"{found['status']}: {found.get('why')}"

    def agree(self, variation):
        """Why two trainings that must agree do not; nothing if they do."""
        script = HERE / variation.program / "train.py"
        runs = [self.train(f"clean/{variation.name}/{index}", variation.program, script, side)
                for index, side in enumerate(variation.sides)]
        code, found = diff(*runs, *variation.options)
        if variation.cause and code == DIVERGENCE and found.get("cause") == variation.cause:
            return ""
        return "" if code == 0 else f"exit code {code}: {place_of(found)}, {found.get('class')}, {found.get('cause')}"


def check(said):
    that, _, on = said.partition(":")
    if that == "ranks_differ":
        return {"that": that, "on": [on or "samples"]}
    return {"that": that}


def diff(left, right, *options):
    ended = subprocess.run([LOCKSTEP, "diff", left, right, *options, "--json", "-"], capture_output=True, text=True)
    try:
        return ended.returncode, json.loads(ended.stdout)
    except json.JSONDecodeError:
        return ended.returncode, {"why": ended.stdout + ended.stderr}


def place_of(found):
    at = found.get("first_divergence")
    return f"step {at['step']} {at['channel']}" if at else str(found.get("why"))


def commit():
    said = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=HERE, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def versions():
    """Versions of what the programs train with, as installed here."""
    for name in ("torch", "torchvision", "accelerate", "transformers", "lightning"):
        try:
            yield f"{name} {importlib.metadata.version(name).partition('+')[0]}"
        except importlib.metadata.PackageNotFoundError:
            pass


class Judgement:
    """One bug, held against what its patch says."""

    def __init__(self, judged):
        self.bug, found = judged["bug"], judged["found"]
        self.detected = judged["code"] == DIVERGENCE
        self.place = place_of(found)
        self.place_right = self.place in self.bug.at.split(" or ")
        self.kind, self.cause = found.get("class"), found.get("cause")
        self.kind_right = self.kind == self.bug.kind
        self.alone = judged["alone"]
        self.alone_right = all(status == "divergence" for _, status, _ in self.alone)

    @property
    def cause_right(self):
        return None if self.bug.cause == "any" else self.cause == self.bug.cause

    @property
    def right(self):
        return self.detected and self.place_right and self.kind_right and self.alone_right

    def row(self):
        alone = "; ".join(f"{name}: {f'`{cause}`' if status == 'divergence' else status}"
                          for name, status, cause in self.alone)
        cells = [self.bug.name.replace("/", ": ").replace("_", " "), f"`{self.bug.cause}`", yes(self.detected),
                 f"`{self.cause}`", mark(self.cause_right), self.place, mark(self.place_right),
                 f"{self.kind}", mark(self.kind_right), alone or "-"]
        return "| " + " | ".join(cells) + " |"


def yes(value):
    return "yes" if value else "**no**"


def mark(value):
    return "-" if value is None else yes(value)


def share(values):
    values = [value for value in values if value is not None]
    return f"{sum(values)} of {len(values)}"


def table(judgements, clean, skipped):
    alone = [item for judgement in judgements for item in judgement.alone]
    lines = ["# Mistakes planted in users' programs and how lockstep judges them", "",
             "Written by `ci/programs --write` from the patches in `tests/programs/bugs` and the variations in "
             f"`tests/programs/clean.py`; change it there. Judged at commit {commit()}, with Python "
             f"{sys.version.split()[0]} and {', '.join(versions())}.", "",
             "Each program runs as it is and with one mistake. `lockstep diff` compares the two recordings. *cause*: "
             "what it should name (`any`: no cause is expected). The last column: checks on the mistaken program "
             "alone.",
             "", "| figure | value |", "|---|---|",
             f"| judged | {len(judgements)} mistakes in {len({item.bug.program for item in judgements})} programs |",
             f"| detected | {share(item.detected for item in judgements)} |",
             f"| place right | {share(item.place_right for item in judgements)} |",
             f"| class right | {share(item.kind_right for item in judgements)} |",
             f"| cause right, first | {share(item.cause_right for item in judgements)} |",
             f"| red in one run, without a healthy twin | {share(status == 'divergence' for _, status, _ in alone)} |",
             f"| false alarms | {sum(map(bool, clean.values()))} in {len(clean)} clean variations |"]
    if skipped:
        lines += [f"| skipped | {', '.join(sorted(skipped))} |"]
    lines += ["", "| planted | cause | detected | diff names first | right | first difference | right | class | right "
              "| checks of one run |", "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [judgement.row() for judgement in judgements]
    lines += ["", "| clean variation | agrees |", "|---|---|"]
    lines += [f"| {name} | {yes(not why)}{' ' + why if why else ''} |" for name, why in clean.items()]
    return "\n".join(lines) + "\n"


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", default="1/1", help="N/M: every M-th, from the N-th on")
    parser.add_argument("--write", type=pathlib.Path, help="write the table to this file")
    parser.add_argument("--seeded", type=int, help="the part of so many that LOCKSTEP_CI_SEED chooses")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--keep", type=pathlib.Path, help="keep all traces in this folder")
    parser.add_argument("names", nargs="*", help="parts of names; without any, all")
    asked = parser.parse_args()
    if asked.seeded:
        asked.part = f"{int(os.environ.get('LOCKSTEP_CI_SEED', 0)) % asked.seeded + 1}/{asked.seeded}"
    return asked


def chosen(items, asked):
    part, _, parts = asked.part.partition("/")
    named = [item for item in items if not asked.names or any(name in item.name for name in asked.names)]
    return named[int(part) - 1::int(parts)]


def attempt(judge, item):
    try:
        return item, judge(item), None
    except (RuntimeError, OSError, subprocess.SubprocessError, ValueError) as error:
        return item, None, str(error)


def main():
    asked = options()
    print(f"part {asked.part} of the bugs and variations; again: --part {asked.part}")
    folder = asked.keep or pathlib.Path(tempfile.mkdtemp(prefix="lockstep-planted-"))
    workshop = Workshop(folder)
    bugs = chosen(bugs_of_programs(), asked)
    variations = chosen([*VARIATIONS, *ROUNDING], asked)
    skipped = {f"{item.program} (needs {', '.join(missing(item.program))})" for item in [*bugs, *variations]
               if missing(item.program)}
    judgements, clean, broken = [], {}, []
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        work = [pool.submit(attempt, workshop.judged, item)
                for item in [*bugs, *variations] if not missing(item.program)]
        for done in work:
            item, result, error = done.result()
            if error:
                broken.append(f"{item.name}: {error}")
                print(f"broken   {broken[-1]}", flush=True)
            elif isinstance(item, Bug):
                judgements.append(Judgement(result))
                print(("right    " if judgements[-1].right else "WRONG    ") + judgements[-1].row(), flush=True)
            else:
                clean[item.name] = result
                print(f"{'WRONG   ' if result else 'right   '} clean {item.name} {result}", flush=True)
    text = table(judgements, clean, skipped)
    print(text.partition("\n| planted")[0].partition("\n\n| figure")[2])
    if asked.write and not broken:
        asked.write.write_text(text)
    if not asked.keep:
        shutil.rmtree(folder)
    right = not broken and not any(clean.values()) and all(judgement.right for judgement in judgements)
    return 0 if right else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
