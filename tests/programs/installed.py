"""The four commands of an installed lockstep on programs: installed.py [PROGRAM …], by the Python that has torch.

Each program is recorded twice, compared with `diff`, and judged by the scenario that `init` writes for it. Exit code 1:
something came out otherwise.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

from clean import PROGRAMS
from programs import HERE, LOCKSTEP, environment, filled, free_port, missing, write_images

#: Programs that start their ranks themselves, or have one.
WITHOUT_LAUNCHER = ("single", "gan", "lightning_fit")


class Failed(Exception):
    """A command that came out otherwise."""


def command_of(program):
    if program in WITHOUT_LAUNCHER:
        return [sys.executable]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]


def lockstep(place, *words, code=0):
    ended = subprocess.run([str(LOCKSTEP), *map(str, words)], cwd=place, capture_output=True, text=True,
                           env=environment(), timeout=900)
    if ended.returncode != code:
        raise Failed(f"lockstep {' '.join(map(str, words))}: exit code {ended.returncode}\n"
                     f"{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
    return ended.stdout


def words_of(program, images, folder):
    """`folder`: where it writes; `{folder}` in a scenario."""
    return [*command_of(program), str(HERE / program / "train.py"),
            *filled(PROGRAMS[program]["arguments"], images=images, folder=folder, port=0)]


def record_and_compare(program, images, place):
    for name in ("a", "b"):
        (place / name).mkdir()  # Lightning also communicates where it finds files of an earlier training
        lockstep(place / name, "record", "--out", "run", "--strict", "--", *words_of(program, images, place / name))
    lockstep(place, "diff", "a/run", "b/run")


def write_and_run(program, images, place):
    """The scenario gives each run a folder of its own, which it starts in, and a port."""
    lockstep(place, "init", "--out", "gate.json", "--", "env", "-C", "{folder}", *words_of(program, images, "{folder}"))
    scenario = json.loads((place / "gate.json").read_text())
    command = [word.replace("{{folder}", "{folder}") for word in scenario["program"]["command"]]
    if "--master-port" in command:
        command[command.index("--master-port") + 1] = "{port}"
    scenario["program"]["command"] = command
    (place / "gate.json").write_text(json.dumps(scenario))
    lockstep(place, "run", "gate.json", code=3)  # all agrees but the golden, which is not accepted yet


def main():
    programs = sys.argv[1:] or list(PROGRAMS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lockstep-installed-") as folder:
        images = write_images(pathlib.Path(folder) / "images")
        for program in programs:
            begin, place = time.monotonic(), pathlib.Path(folder) / program
            place.mkdir()
            if missing(program):
                print(f"skipped  {program}: needs {', '.join(missing(program))}", flush=True)
                continue
            try:
                record_and_compare(program, images, place)
                write_and_run(program, images, place)
                print(f"right    {program}: record, diff, init, run ({time.monotonic() - begin:.0f} s)", flush=True)
            except Failed as error:
                failed += 1
                print(f"WRONG    {program}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
