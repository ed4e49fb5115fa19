"""Goes the way of somebody who has the packages of ci/release, the pages and a torch, and no more: stranger.py FOLDER.

The commands are those of README.md and of docs/demo.md, your-training.md and releasing.md, read from there. They run in
an empty folder, with an empty HOME, without a compiler, not as root. Exit code 1: one does not do what its page says.
"""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # no cache beside the sources
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/programs"))
from packages import Environment  # noqa: E402
from transcript import answers_in, blocks_in, code_of, commands_in, commands_of, matches, script_of  # noqa: E402

TRAINING = ROOT / "tests/programs/ddp_tutorial/train.py"
#: That the commands call. All that lockstep calls must be among them, too.
TOOLS = ("bash", "cp", "env", "mv", "rm", "sed", "sh")
COMPILERS = ("c++", "cc", "clang", "cmake", "g++", "gcc", "make", "ninja", "nvcc")
NOBODY = 65534
#: A cache of root's is in a folder that root alone may read: this user reads everything, and writes what is its own.
AS_NOBODY = (shutil.which("setpriv") or "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             "--no-new-privs", "--securebits=+no_setuid_fixup",  # for access(2), too
             *(f"--{name}=-all,+dac_read_search" for name in ("inh-caps", "ambient-caps", "bounding-set")))
#: How a command ends that looks at a training with a mistake.
OF_A_MISTAKE = {"run": 1, "show": 0, "diff": 1}
#: It takes 46 s in docs/demo.md, but other work may run beside it.
DEMO_AT_MOST_S = 180


class Step:
    """A command of a page, and what the page says of it."""

    def __init__(self, command, shown=("...",), code=0):
        self.command, self.shown = command, list(shown)
        promised = code_of(self.shown)
        self.code = code if promised is None else promised

    def problem(self, code, said):
        if code == self.code and matches(self.shown, said):
            return []
        return ["\n".join([f"$ {self.command}", f"expected, with exit code {self.code}:", *self.shown,
                           f"actual, with exit code {code}:", *said])]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(name, folder):
    """The distributions that pip installs with this one, and itself."""
    known = {plain(one.metadata["Name"]): one for one in importlib.metadata.distributions(path=[folder])}
    found, left = {}, [name]
    while left:
        one, extras = re.match(r"([\w.-]+)(?:\[(.*?)\])?", left.pop()).groups()
        one, extras = plain(one), set((extras or "").split(","))
        if one in known and one not in found:
            found[one] = known[one]
            for text in known[one].requires or ():
                asked = set(re.findall(r"extra == ['\"]([\w.-]+)", text))
                left += [text] if not asked or asked & extras else []
    return found


def with_torch_alone(environment):
    """Takes away what `pip install torch` does not bring, and adds its commands."""
    packages, = environment.folder.glob("lib/python3*/site-packages")
    kept = required_by("torch", str(packages))
    names = {path.parts[0] for one in kept.values() for path in one.files}
    for one in packages.iterdir():
        if one.is_symlink() and one.name not in names:
            one.unlink()
    for point in kept["torch"].entry_points:
        if point.group == "console_scripts":
            module, function = point.value.split(":")
            script = environment.bin / point.name
            script.write_text(f"#!{environment.bin}/python\nfrom {module} import {function}\n{function}()\n")
            script.chmod(0o755)


class Stranger:
    def __init__(self, root, packages):
        self.root, self.packages = root, packages
        with_torch_alone(Environment(root / "venv", os.environ["python_root"]))
        for name in ("home", "tmp", "tools"):
            (root / name).mkdir()
        for name in TOOLS:
            (root / "tools" / name).symlink_to(shutil.which(name))
        self.variables = {"PATH": f"{root}/venv/bin:{root}/tools", "HOME": f"{root}/home", "TMPDIR": f"{root}/tmp",
                          "LANG": "C.UTF-8", "PIP_NO_INDEX": "1"}  # there is nothing to fetch: torch is here
        self.give(root)

    def give(self, folder):
        if os.geteuid() == 0:
            for place, folders, files in os.walk(folder):
                for name in (".", *folders, *files):
                    os.chown(pathlib.Path(place) / name, NOBODY, NOBODY, follow_symlinks=False)

    def folder(self, name, *files):
        """An empty one, with the packages beside it as dist/, and copies of these files."""
        folder = self.root / name
        folder.mkdir()
        (folder / "dist").symlink_to(self.packages)
        for file in files:
            shutil.copy(file, folder)
        self.give(folder)
        return folder

    def problems_of(self, steps, folder):
        """Takes the steps one after another in one shell."""
        # A page's /tmp/tour would be everybody's.
        commands = [step.command.replace("/tmp/", f"{self.root}/tmp/") for step in steps]
        words = [*(AS_NOBODY if os.geteuid() == 0 else ()), shutil.which("bash"), "-c", script_of(commands)]
        ended = subprocess.run(words, cwd=folder, env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=1200)
        answers = answers_in(ended.stdout)
        if len(answers) != len(steps):
            yield f"{len(answers)} of {len(steps)} commands ended:\n{ended.stdout}"
        for step, (code, said) in zip(steps, answers):
            problem = step.problem(code, said)
            print(f"  {'red' if problem else 'ok '}  exit code {code}  {step.command}", flush=True)
            yield from problem


def page(name):
    return (ROOT / name).read_text()


def section(text, title):
    """From one heading to the next of its rank."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


def commands_below(text):
    """Of a block without output, without remarks."""
    return [line.partition("  #")[0].rstrip() for line in text.splitlines()]


def first_screen(stranger):
    """Recordings, with the wheel lockstep alone."""
    text = page("README.md").partition("## Built-in")[0]
    block, = (block for block in blocks_in(text, "") if "lockstep record" in block)
    install, record, check = commands_below(block)
    diff = re.search(r"two: (lockstep diff .*)", block)[1]
    folder = stranger.folder("first", TRAINING)
    steps = [Step(f"test $UID != 0 && ! command -v {' '.join(COMPILERS)}", []), Step(install),
             Step("lockstep doctor", ["...", "ready to record and judge programs; …"]),
             Step(record), Step(check, ["before: agree", "..."]),
             Step("rm snapshot.pt"), Step(record.replace("before", "after")), Step(diff, ["agree: …", "..."])]
    yield from stranger.problems_of(steps, folder)


def demo(stranger):
    """All of it: the losses alone may have other digits."""
    text = page("docs/demo.md")
    begin, output = blocks_in(text, "")
    shown = ["...", *(re.sub(r"(mistake|mended)   *[▁-█].*", r"\1…", line) for line in output.splitlines())]
    folder = stranger.folder("demo")
    start = time.monotonic()
    yield from stranger.problems_of([Step(begin.rstrip(), shown)], folder)
    took = time.monotonic() - start
    print(f"  {took:.0f} s for the demo", flush=True)
    if took > DEMO_AT_MOST_S:
        yield f"the demo took {took:.0f} s, more than {DEMO_AT_MOST_S} s"
    following = re.findall(r"^- .*`(lockstep (\w+) [^`]+)`", text, re.MULTILINE)
    yield from stranger.problems_of([Step(command, code=OF_A_MISTAKE[name]) for command, name in following], folder)


def edited_script(stranger):
    """The verdict at the top of README.md: the demo's script, before and after the edit."""
    text = page("README.md").partition("## Built-in")[0]
    transcript, = (block for block in blocks_in(text, "") if block.startswith("$ "))
    record = next(line for block in blocks_in(text, "") for line in block.splitlines() if "lockstep record" in line)
    record = record.replace("train.py", "accumulation.py")
    folder = stranger.folder("edited", stranger.root / "demo/lockstep-demo/accumulation.py")
    steps = [Step(f"{record} --mended"), Step(record.replace("before", "after"))]
    yield from stranger.problems_of([*steps, *(Step(*one) for one in commands_of(transcript))], folder)


def your_training(stranger):
    text = page("docs/your-training.md")
    folder = stranger.folder("yours", TRAINING)
    install = blocks_in(section(text, "Ten minutes"), "")[0].rstrip()
    doctor = re.search(r"`(lockstep doctor [^`]+)`", text)[1]
    steps = [Step(f"cd dist; {install}; cd ..")]
    steps += [Step(*one) for one in commands_in(text)]
    yield from stranger.problems_of([*steps, Step(doctor, ["...", "ready"])], folder)


def tour(stranger):
    """Trainings of the worker: both wheels."""
    text = section(page("README.md"), "Five-minute tour")
    begin, broken = blocks_in(text, "")
    scenario, = blocks_in(text, "jsonc")
    name, run = re.search(r"Save this as `(.*?)` and run\s`(.*?)`", text).groups()
    folder = stranger.folder("tour")
    (folder / name).parent.mkdir()
    (folder / name).write_text(scenario)
    stranger.give(folder)
    verdict = ["...", *blocks_in(page("docs/verdicts.md"), "")[0].splitlines(), "..."]
    steps = [Step(re.search(r"pip install dist/\S*whl", begin)[0])]
    steps += [Step(command, ["...", "ready"]) for command in commands_below(begin) if command.startswith("lockstep ")]
    steps += [Step(run, ["...", "agree: …"])]
    for command in commands_below(broken):
        what = command.split()[1]
        steps.append(Step(command, verdict if what == "run" else ["..."], OF_A_MISTAKE[what]))
    yield from stranger.problems_of(steps, folder)


def installation(stranger):
    """docs/releasing.md, with what is installed by then."""
    block = next(block for block in blocks_in(page("docs/releasing.md"), "") if "pip install" in block)
    yield from stranger.problems_of([Step(command) for command in commands_below(block)], stranger.packages)


def main():
    found = []
    with tempfile.TemporaryDirectory(prefix="lockstep-stranger-") as root:
        stranger = Stranger(pathlib.Path(root), pathlib.Path(sys.argv[1]).resolve())
        for way in (first_screen, demo, edited_script, your_training, tour, installation):
            start = time.monotonic()
            print(way.__name__.replace("_", " "), flush=True)
            found += way(stranger)
            print(f"  {time.monotonic() - start:.0f} s", flush=True)
    print("\n\n".join(found) or "each command of the pages does what they say, for a stranger, too")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
