"""What the tests of recorded programs share: launching ranks, with and without recording, and reading traces."""

import atexit
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD_ROOT", HERE.parents[1] / "build"))
LOCKSTEP = BUILD / "bin/lockstep"
PACKAGE = next((folder for folder in (BUILD / "python", BUILD / "share/lockstep/python") if folder.exists()), BUILD)


def environment(**variables):
    """The environment of a user: nothing of ours in it but what is asked for."""
    ours = ("LOCKSTEP_", "PYTHONPATH", "PROBE_")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**plain, "OMP_NUM_THREADS": "1", **variables}


def recording(folder, **variables):
    """What `lockstep record --out FOLDER` sets."""
    return {"PYTHONPATH": str(PACKAGE), "LOCKSTEP_RECORD": str(folder), **variables}


#: What a program imports besides torch and numpy.
FRAMEWORKS = {"imagenet": ["torchvision"], "accelerate_cv": ["accelerate", "torchvision"],
              "hf_trainer": ["accelerate", "transformers"], "lightning_fit": ["lightning"]}


def missing(program):
    """The frameworks that a program needs and this Python does not have."""
    return absent(FRAMEWORKS.get(program, []))


def absent(packages):
    return [name for name in packages if importlib.util.find_spec(name) is None]


def write_images(folder):
    """Small pictures, as ImageFolder reads them (train/<class>, val/<class>) and with the class in the name (pets)."""
    import numpy
    from PIL import Image
    generator = numpy.random.RandomState(0)
    for group, count in (("train", 15), ("val", 6), ("pets", 20)):
        for kind in ("ant", "bee", "cat", "dog"):
            place = folder / group / ("" if group == "pets" else kind)
            place.mkdir(parents=True, exist_ok=True)
            for index in range(count):
                pixels = generator.randint(0, 256, (40, 40, 3), dtype=numpy.uint8)
                Image.fromarray(pixels).save(place / f"{kind}_{index}.png")
    return folder


def filled(words, **values):
    """Words of a command whose '{images}' and the like are replaced."""
    return [str(word).format(**values) for word in words]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def torch_is_before(minor):
    """Whether this Python's torch is older than 2.minor: not all that the tests use is there then."""
    return tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) < (2, minor)


class Ended:
    """How the ranks ended."""

    def __init__(self, exit_codes, out, err):
        self.exit_codes, self.out, self.err = exit_codes, out, err

    def __repr__(self):
        return f"exit codes {self.exit_codes}\n{self.out}\n{self.err}"


def launch(words, world_size, directory, timeout=1500, **variables):
    """Starts one process for each rank, as torchrun does but without its seconds of waiting."""
    common = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(world_size), **variables)
    ranks = []
    for rank in range(world_size):
        # Files: a pipe that nobody reads while another rank is waited for would stop a rank.
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = subprocess.Popen([sys.executable, *map(str, words)], cwd=directory, stdout=out, stderr=err,
                                   env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        ranks.append((process, out, err))
    try:
        exit_codes = [process.wait(timeout) for process, _, _ in ranks]
    finally:
        for process, _, _ in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
    said = []
    for index in (1, 2):
        files = [rank[index] for rank in ranks]
        for file in files:
            file.seek(0)
        said.append("".join(file.read() for file in files))
        for file in files:
            file.close()
    return Ended(exit_codes, *said)


def lockstep(*words, **options):
    return subprocess.run([str(LOCKSTEP), *map(str, words)], capture_output=True, text=True, **options)


class Trace:
    """One rank's trace, read without lockstep."""

    def __init__(self, folder, rank=0):
        lines = (pathlib.Path(folder) / f"rank{rank}.jsonl").read_text().splitlines(keepends=True)
        if not lines[-1].endswith("\n"):
            del lines[-1]  # torn within a line
        objects = [json.loads(line) for line in lines]
        self.header = objects[0]
        self.is_whole = bool(objects[-1].get("end"))
        self.steps = {line["step"]: line for line in objects if "step" in line}

    def names(self, step, channel):
        return [record["name"] for record in self.steps[step].get(channel, [])]

    def texts(self, step, channel):
        return [record["text"] for record in self.steps[step].get(channel, [])]

    def record(self, step, channel, name):
        return next(record for record in self.steps[step][channel] if record["name"] == name)

    def value(self, step, channel, name):
        record = self.record(step, channel, name)
        return record["integers"] if "integers" in record else float(record["decimal"])


def start_here(script, directory, variables, out=None, err=None, arguments=()):
    """Starts a script in a fork of this process, which has imported torch already: that takes seconds.

    The recorder is made in the child as torch makes it at the end of its import. `out`, `err`: files to write to.
    """
    child = os.fork()
    if child != 0:
        return child
    exit_code = 1
    try:
        for descriptor, file in ((1, out), (2, err)):
            target = os.open(os.devnull, os.O_WRONLY) if file is None else file.fileno()
            os.dup2(target, descriptor)
        os.chdir(directory)
        os.environ.update(variables)
        sys.path.insert(0, str(PACKAGE))
        sys.argv = [str(script), *map(str, arguments)]
        sys.path[:0] = [str(pathlib.Path(script).parent)]
        import lockstep._entry
        lockstep._entry.activate()
        # What the script made is kept: ProcessGroupGloo's end waits for a thread that may want the interpreter's lock.
        kept = runpy.run_path(str(script), run_name="__main__")
        exit_code = 0
    except SystemExit as error:
        kept = error  # noqa: F841
        exit_code = error.code if isinstance(error.code, int) else 1 if error.code else 0
    except BaseException as error:
        sys.last_value = error
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def run_here(script, directory, variables):
    """Runs a script in a fork of this process."""
    out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
    child = start_here(script, directory, variables, out, err)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = []
    for file in (out, err):
        file.seek(0)
        said.append(file.read())
        file.close()
    return Ended([exit_code], *said)


def chosen_part(most):
    """Those of a list that LOCKSTEP_TEST_PART ("2/6") chooses, as a slice, where a list has `most` parts or fewer."""
    part, _, parts = os.environ.get("LOCKSTEP_TEST_PART", "1/1").partition("/")
    parts = min(int(parts), most)
    return slice(int(part) % parts, None, parts)


class ProgramTest(unittest.TestCase):
    """Each test has a folder of its own."""

    #: Number of parts of this class's tests, of which the commit chooses one.
    PARTS = 1
    maxDiff = None

    def setUp(self):
        names = unittest.defaultTestLoader.getTestCaseNames(type(self))
        if self._testMethodName not in names[chosen_part(self.PARTS)]:
            self.skipTest("of another part than the commit's")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-programs-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def script(self, text, name="train.py"):
        path = self.folder / name
        path.write_text(text)
        return path

    def recorded(self, words, world_size=1, folder="run", **variables):
        """Runs a program with recording; it has to end well. Returns its folder."""
        run = self.folder / folder
        ended = launch(words, world_size, self.folder, **recording(run, **variables))
        self.assertEqual(ended.exit_codes, [0] * world_size, ended)
        self.assertNotIn("lockstep:", ended.err)
        return run

    def records(self, text, folder="run", **variables):
        """Runs the text of a script, quickly, with recording; it has to end well. Returns its trace."""
        ended = self.run_recorded(text, folder, **variables)
        self.assertEqual(ended.exit_codes, [0], ended)
        self.assertNotIn("lockstep:", ended.err)
        return Trace(self.folder / folder)

    def run_recorded(self, text, folder="run", **variables):
        return run_here(self.script(text), self.folder, {"LOCKSTEP_RECORD": str(self.folder / folder), **variables})

    def ranks(self, script, folder, arguments=(), ranks=2):
        """Records a script under several ranks, in forks of this process; it has to end well. Returns its folder."""
        common = {"LOCKSTEP_RECORD": str(self.folder / folder), "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(ranks),
                  "MASTER_PORT": str(free_port())}
        with tempfile.TemporaryFile("w+") as said:
            started = [start_here(script, self.folder, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, said,
                                  said, arguments) for rank in range(ranks)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in started]
            said.seek(0)
            self.assertEqual(codes, [0] * ranks, said.read())
        return self.folder / folder

    def assert_torn(self, folder, rank=0):
        self.assertFalse(Trace(folder, rank).is_whole)

    def assert_agree(self, left, right):
        ended = lockstep("diff", left, right)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout


if __name__ == "__main__":
    sys.exit("a module of tests")
