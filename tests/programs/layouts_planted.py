"""Plants mistakes in layouts/train.py and counts what lockstep tells of them: layouts_planted.py [NAME …]

layouts_bugs.py lists them. The program as it is (the twin) and the patched one are recorded in the same layout, and
compared by `lockstep diff`; `lockstep check` judges the patched one alone. A training that goes on from a checkpoint is
also compared with the one that saved it and went on, too. Twins must break no law and come out alike twice. Names:
parts of a mistake's name, or "twin". Exit code 1: a twin was judged wrongly. Mistakes and causes are counted and decide
nothing.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from layouts_bugs import MISTAKES, Mistake
from layouts_pairs import train
from planted import DIVERGENCE, attempt, chosen, place_of
from programs import HERE, LOCKSTEP, environment

TIMEOUT_S = 120
SCRIPT = HERE / "layouts/train.py"


@dataclasses.dataclass
class Twin:
    """Trainings of the program as it is, one for all mistakes in the same layout."""

    mistake: Mistake

    @property
    def name(self):
        saved = f" saved by {'-'.join(map(str, self.mistake.saved_by))}" if self.mistake.saved_by else ""
        return " ".join(f"twin {self.mistake.layout} {self.mistake.world_size} {self.mistake.options}".split()) + saved


def ended(words, place):
    """Exit code and output of a command that gets its time and no more."""
    process = subprocess.Popen(list(map(str, words)), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment(), start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"no end after {TIMEOUT_S} s: {shlex.join(map(str, words))}") from None
    return process.returncode, out, err


def judged(*words):
    """Exit code and findings of `lockstep diff` or `lockstep check`."""
    code, out, err = ended([LOCKSTEP, *words, "--json", "-"], HERE)
    try:
        return code, json.loads(out)
    except json.JSONDecodeError:
        raise RuntimeError(f"{shlex.join(map(str, words))}: exit code {code}\n{out}{err}") from None


def broken_laws(*runs):
    """Laws that runs break: (law, place, cause)."""
    code, found = judged("check", *runs)
    laws = [law for run in found["runs"] for law in run["laws"] if law["outcome"] == "broken"]
    if (code == DIVERGENCE) != bool(laws):
        raise RuntimeError(f"check ended with {code}, but {len(laws)} laws are broken")
    return [(law["law"], place_of_law(law["broken_at"]), law["cause"] or "unknown") for law in laws]


def place_of_law(at):
    return f"step {at['step']} {at['channel']} {at['tensor']}"


class Workshop:
    """Where trainings run: one folder, and in it one for each training."""

    def __init__(self, folder):
        self.folder, self.twins = folder, {}

    def train(self, name, script, world_size, arguments):
        """Records a training; returns the folder of its traces."""
        place = self.folder / name
        place.mkdir(parents=True)
        length = [] if "--steps" in arguments else ["--steps", "6"]
        train(script, [*arguments, *length], world_size, place, place / "run")
        return place / "run"

    def trained(self, name, script, mistake):
        """The runs of a training: the one that is judged last, the one that saved its checkpoint first."""
        if not mistake.saved_by:
            return [self.train(name, script, mistake.world_size, mistake.arguments())]
        checkpoint, length = self.folder / name / "checkpoint", ["--steps", "10"]
        saving = [*mistake.arguments_of_saving(checkpoint), "--save-at", "4", *length]
        saved = self.train(f"{name}/saving", script, mistake.saved_by[1], saving)
        loading = [*mistake.arguments(checkpoint), *length]
        return [saved, self.train(f"{name}/loading", script, mistake.world_size, loading)]

    def twin(self, mistake):
        name = folder_of(Twin(mistake).name)
        if name not in self.twins:
            self.twins[name] = self.trained(f"{name}/first", SCRIPT, mistake)
        return self.twins[name]

    def judge(self, item):
        return self.judge_mistake(item) if isinstance(item, Mistake) else self.judge_twin(item)

    def judge_mistake(self, mistake):
        twin = self.twin(mistake)
        runs = self.trained(f"{mistake.name}/run", mistake.patched(self.folder), mistake)
        resumed = Difference(mistake, *judged("diff", *runs)) if mistake.saved_by else None
        return Judgement(mistake, Difference(mistake, *judged("diff", twin[-1], runs[-1])), resumed, broken_laws(*runs))

    def judge_twin(self, twin):
        """What is wrong with a twin: (what, text)."""
        first = self.twin(twin.mistake)
        second = self.trained(f"{folder_of(twin.name)}/second", SCRIPT, twin.mistake)
        wrong = [("check", f"{law} at {place}: {cause}") for law, place, cause in broken_laws(*first)]
        for one, other in zip(first, second, strict=True):
            wrong += self.differences(one, other)
        if twin.mistake.saved_by:
            wrong += self.differences(*first, "resumed", "rounding")
        return wrong

    def differences(self, left, right, what="diff", allowed=None):
        code, found = judged("diff", left, right)
        if code == 0 or code == DIVERGENCE and allowed and found["class"] == allowed:
            return []
        return [(what, ended([LOCKSTEP, "diff", left, right], HERE)[1])]


def folder_of(name):
    return name.replace(" ", "_").replace("--", "")


def mark(mistake, cause):
    """A cause that is named where none is expected is for the reader to judge."""
    if cause == "unknown":
        return cause
    if not mistake.causes:
        return "unexpected"
    return "right" if cause in mistake.causes.split() else "wrong"


class Difference:
    """What `lockstep diff` says of a mistaken run and another one."""

    def __init__(self, mistake, code, found):
        self.cause = found["cause"] or "unknown"
        self.mark = mark(mistake, self.cause)
        self.found = code == DIVERGENCE and (found["class"] != "rounding" or self.mark == "right")  # 16 bits round, too
        self.text = f"{self.cause} ({self.mark}), {found['class']}, {place_of(found)}"
        if not self.found:
            self.text = f"**not found**: exit code {code}, {found['class']}"


class Judgement:
    """One mistake, held against what the table expects."""

    def __init__(self, mistake, twin, resumed, alone):
        self.mistake, self.twin, self.resumed, self.alone = mistake, twin, resumed, alone
        self.marks_alone = {mark(mistake, cause) for _, _, cause in alone}

    @property
    def found(self):
        return self.twin.found or bool(self.alone) or self.resumed is not None and self.resumed.found

    def row(self):
        alone = "; ".join(f"{law} {cause} ({mark(self.mistake, cause)}) at {place}" for law, place, cause in self.alone)
        cells = [self.mistake.name, self.twin.text, self.resumed.text if self.resumed else "-", alone or "-",
                 self.mistake.causes or "none"]
        return "| " + " | ".join(cells) + " |"


def counts(judgements):
    for what, all_of in (("with the twin", [each.twin for each in judgements]),
                         ("with the run that saved", [each.resumed for each in judgements if each.resumed])):
        found = [each for each in all_of if each.found]
        yield f"found {what}: {len(found)} of {len(all_of)}; causes: {tally(each.mark for each in found)}"
    alone = [" and ".join(sorted(each.marks_alone)) for each in judgements if each.alone]
    yield f"found alone: {len(alone)} of {len(judgements)}; causes: {tally(alone)}"
    yield f"found by none: {', '.join(each.mistake.name for each in judgements if not each.found) or 'none'}"


def tally(marks):
    marks = list(marks)
    return ", ".join(f"{marks.count(mark)} {mark}" for mark in sorted(set(marks))) or "none"


def unique(items):
    return list({item.name: item for item in items}.values())


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", default="1/1", help="N/M: every M-th, from the N-th on")
    parser.add_argument("--keep", type=pathlib.Path, help="keep all traces in this folder")
    parser.add_argument("names", nargs="*", help="parts of names; without any, all")
    return parser.parse_args()


def main():
    asked = options()
    folder = asked.keep.resolve() if asked.keep else pathlib.Path(tempfile.mkdtemp(prefix="lockstep-layouts-"))
    workshop, judgements, clean, broken = Workshop(folder), [], {}, []
    print("| mistake | beside the twin: cause, class, place | beside the run that saved | alone: law, cause, place "
          "| expected |\n|---|---|---|---|---|", flush=True)
    for item in chosen([*MISTAKES, *unique(map(Twin, MISTAKES))], asked):
        _, result, error = attempt(workshop.judge, item)
        if error:
            broken.append(item.name)
            print(f"broken {item.name}: {error}", flush=True)
        elif isinstance(item, Mistake):
            judgements.append(result)
            print(result.row(), flush=True)
        else:
            clean[item.name] = result
            print(f"{'WRONG' if result else 'right'} {item.name}", flush=True)
            for what, text in result:
                print(f"  {what}: {text}", flush=True)
    print(*counts(judgements), sep="\n")
    wrong = [name for name, result in clean.items() if result]
    print(f"clean ones wrongly judged: {len(wrong)} of {len(clean)}: {', '.join(wrong) or 'none'}")
    print(f"broken: {', '.join(broken) or 'none'}")
    if not asked.keep:
        shutil.rmtree(folder)
    return 1 if wrong or broken else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
