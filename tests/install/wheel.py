"""Looks into a wheel: wheel.py FILE.whl VERSION. Exit code 1: something is missing, too much, or of another version."""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

#: Libraries that any Linux of Python's has, or that the wheel brings.
ALLOWED = re.compile(r"(libc|libm|libpthread|libdl|libgcc_s|ld-linux-x86-64)\.so\.\d|libxxhash\.so\.0|linux-vdso")
BINARIES = ("lockstep", "liblockstep_recorder.so.1", "libxxhash.so.0")
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "python"


def needed(binary):
    said = subprocess.run(["readelf", "-dW", str(binary)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED.*\[(.*)\]", said)


def expected(version):
    """Names of all files."""
    data, info = f"lockstep-{version}.data", f"lockstep-{version}.dist-info"
    sources = [path for part in ("lockstep", "_lockstep_autoload") for form in ("*.py", "*.jsonc")
               for path in (SOURCES / part).rglob(form)]
    package = [str(path.relative_to(SOURCES)) for path in sources] + [
        "lockstep/py.typed", "lockstep/liblockstep_recorder.so.1", "lockstep/libxxhash.so.0"]
    share = f"{data}/data/share/lockstep"
    return {*package, *(f"{share}/python/{name}" for name in package), f"{data}/scripts/lockstep",
            *(f"{share}/python/lockstep-{version}.egg-info/{name}" for name in ("PKG-INFO", "entry_points.txt")),
            f"{share}/scenario.schema.json", f"{share}/trace-format.md",
            *(f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
                                            "licenses/NOTICE"))}


def problems_of(file, version):
    """A sentence each."""
    if file.name != f"lockstep-{version}-py3-none-linux_x86_64.whl":
        yield f"the wheel is named {file.name}"
    with zipfile.ZipFile(file) as wheel, tempfile.TemporaryDirectory() as folder:
        names, right = set(wheel.namelist()), expected(version)
        yield from (f"missing: {name}" for name in sorted(right - names))
        yield from (f"too much: {name}" for name in sorted(names - right))
        wheel.extractall(folder)
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.name in BINARIES and path.is_file():
                yield from (f"{path.relative_to(folder)} needs {name}, which a machine may lack"
                            for name in needed(path) if not ALLOWED.fullmatch(name))
        entries = wheel.read(f"lockstep-{version}.dist-info/entry_points.txt").decode()
        for line in ("[torch.backends]", "lockstep = _lockstep_autoload:activate", "[pytest11]",
                     "lockstep = lockstep.pytest_plugin"):
            if line not in entries:
                yield f"no entry point '{line}'"


def main():
    found = list(problems_of(pathlib.Path(sys.argv[1]), sys.argv[2]))
    print("\n".join(found) or f"{sys.argv[1]} is whole")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
