"""Plants mistakes in users' programs and counts what one run tells of them: alone.py [--part 2/8] [NAME …]

Each bugs/<program>/<bug>.patch is applied, the program is recorded once, and `lockstep check` judges that run. There
is no healthy twin, no golden and no promise. A patch that one run must show says which law it breaks, and with which
cause: "alone: usage clip.before_unscale". The programs as they are, and clean variations, break none.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from clean import PROGRAMS, VARIATIONS, Side
from planted import Bug, Workshop, attempt, bugs_of_programs, chosen, options
from programs import HERE, LOCKSTEP, missing


def check(run):
    """Broken laws of a run with place and cause: (law, place, cause)."""
    ended = subprocess.run([LOCKSTEP, "check", run, "--json", "-"], capture_output=True, text=True, timeout=1500)
    try:
        [judged] = json.loads(ended.stdout)["runs"]
    except json.JSONDecodeError:
        raise RuntimeError(f"{run}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}") from None
    return [(law["law"], place_of(law["broken_at"]), law["cause"]) for law in judged["laws"]
            if law["outcome"] == "broken"]


def place_of(at):
    return f"step {at['step']} {at['channel']} {at['tensor']}"


class Clean:
    """A program as it is, started plainly."""

    def __init__(self, program):
        self.name = self.program = program
        self.right = Side()


def judge(workshop, item):
    if isinstance(item, Bug):
        script, prepared = workshop.patched(item), workshop.prepared(item)
        side = Side(arguments=workshop.resuming(item, prepared, "alone"))
        return check(workshop.train(f"{item.name}/alone", item.program, script, side))
    return check(workshop.train(f"clean/{item.name}", item.program, HERE / item.program / "train.py", item.right))


def is_right(item, found):
    """A patch that names no law may break one or none: it is counted, and decides nothing."""
    if not isinstance(item, Bug):
        return not found
    wanted = item.alone.split()
    return not wanted or any(wanted == [law, cause] for law, _, cause in found)


def main():
    asked = options()
    folder = asked.keep or pathlib.Path(tempfile.mkdtemp(prefix="lockstep-alone-"))
    workshop = Workshop(folder)
    items = [*bugs_of_programs(), *map(Clean, PROGRAMS), *VARIATIONS]
    items = [item for item in chosen(items, asked) if not missing(item.program)]
    found, wrong, total = 0, [], 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for done in [pool.submit(attempt, lambda item: judge(workshop, item), item) for item in items]:
            item, result, error = done.result()
            right = error is None and is_right(item, result)
            if not right:
                wrong.append(item.name)
            if isinstance(item, Bug):
                total, found = total + 1, found + bool(result)
            said = "; ".join(f"{law} at {place}: {cause}" for law, place, cause in result or [])
            print(f"{'right' if right else 'WRONG'}  {item.name}: {error or said or 'nothing'}", flush=True)
    print(f"{found} of {total} mistakes are found in one run alone; wrongly judged: {', '.join(wrong) or 'none'}")
    if not asked.keep:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
