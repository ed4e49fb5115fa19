"""Inspects the packages of ci/release, installs, tries and removes each: packages.py FOLDER VERSION COMMIT PROGRAM.

Exit code 1: something is missing, untrue or left behind. It takes the torch of the tests ($python_root of ci/common.sh)
and compares traces with those of PROGRAM, a lockstep beside its worker built from the same sources.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/gate/world-size.jsonc"
#: As ci/lint looks for them in the repository.
INDEX = re.compile(rb"pypi\.(org|io|python)|pythonhosted\.org|download\.pytorch\.org|pypi\.nvidia|"
                   rb"https?://[^ \0]*/simple\b")
#: The newest libstdc++ beside a glibc: that of RHEL 9, and of Ubuntu 22.04.
NEWEST = {(2, 34): (3, 4, 29), (2, 35): (3, 4, 30)}


def run(*words, **more):
    ended = subprocess.run(list(map(str, words)), capture_output=True, text=True, **more)
    if ended.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def files_in(folder):
    """All that is no folder, by its path from there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def unpack(package, folder):
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)
    elif package.suffix == ".deb":
        run("dpkg-deb", "-x", package, folder)
    else:
        with tarfile.open(package) as archive:
            archive.extractall(folder)


def newest(prefix, binaries):
    """Version of the newest symbol that they need, (2, 34) of GLIBC_2.34; (0,) if they need none."""
    found = set()
    for binary in binaries:
        found |= set(re.findall(rf"\b{prefix}_([0-9.]+)\)?\s", run("objdump", "-T", binary)))
    return max((tuple(map(int, one.split("."))) for one in found), default=(0,))


def problems_of_tag(name, folder):
    """The wheel is for each machine that its tag names, and for all machines that it could be for."""
    tag = re.fullmatch(r".*-py3-none-manylinux_(\d+)_(\d+)_x86_64\.whl", name)
    if not tag:
        yield f"{name} has no manylinux tag"
        return
    glibc = int(tag[1]), int(tag[2])
    binaries = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    if not binaries:
        yield f"{name} has no binary"
    for prefix, most in ("GLIBC", glibc), ("GLIBCXX", NEWEST.get(glibc, (0,))):
        needed = newest(prefix, binaries)
        if needed > most:
            yield f"{name} needs {prefix} {needed}, but its tag has {most}"


def problems_of_content(name, folder, machine):
    """`machine`: folders of the machine that built it, of which nothing speaks."""
    places = [str(one).encode() for one in machine]
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        content, inside = path.read_bytes(), path.relative_to(folder)
        if INDEX.search(content):
            yield f"{name}: {inside} holds the address of an index"
        yield from (f"{name}: {inside} holds {place.decode()}" for place in places if place in content)
    for licence in ("LICENSE", "NOTICE"):
        if not any(path.name == licence and path.read_bytes() == (ROOT / licence).read_bytes()
                   for path in folder.rglob(licence)):
            yield f"{name} has no {licence}"


def problems_of(package, machine):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        unpack(package, folder)
        yield from problems_of_content(package.name, folder, machine)
        if package.suffix == ".whl":
            yield from problems_of_tag(package.name, folder)


def problems_of_set(folder, version):
    """Neither a package nor a checksum is missing or too much."""
    patterns = (f"lockstep-{version}-py3-none-*.whl", f"lockstep_worker-{version}-py3-none-*.whl",
                f"lockstep_{version}_amd64.deb", f"lockstep-{version}.tar.gz")
    names = {path.name for path in folder.iterdir()}
    for pattern in patterns:
        found = [path.name for path in folder.glob(pattern)]
        names -= set(found)
        if len(found) != 1:
            yield f"{len(found)} files {pattern}"
    yield from (f"too much: {name}" for name in sorted(names - {"SHA256SUMS"}))
    right = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                    for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS")
    if (folder / "SHA256SUMS").read_text() != right:
        yield "SHA256SUMS is not that of the files"


def problems_of_removal(name, before, after):
    yield from (f"{name} left {path}" for path in sorted(after - before))
    yield from (f"{name} took {path} with it" for path in sorted(before - after))


def problems_of_version(program, version, commit):
    said = run(program, "--version")
    if not said.startswith(f"{program.name} {version} (commit {commit[:12]}), build "):
        yield f"{program} says {said}"


class Environment:
    """A virtual environment with the torch of the tests where pip would have put it."""

    def __init__(self, folder, python_root):
        run("python3", "-m", "venv", folder)
        self.folder, self.bin = folder, folder / "bin"
        packages, = folder.glob("lib/python3*/site-packages")
        source, = pathlib.Path(python_root).glob("lib/python3*/site-packages")
        if packages.parent.name != source.parent.name:
            raise SystemExit(f"python3 is not the Python of {python_root}")
        for one in source.iterdir():
            if not (packages / one.name).exists():
                (packages / one.name).symlink_to(one)

    def pip(self, *words):
        return run(self.bin / "pip", "--disable-pip-version-check", *words, cwd=self.folder)


def problems_of_traces(bin_, own, folder):
    """The worker that pip installed computes and writes what the one that was built does."""
    for program, name in (bin_ / "lockstep", "installed"), (own, "own"):
        run(program, "run", SCENARIO, "--out", folder / name, cwd=folder)
    traces = sorted(path.relative_to(folder / "own") for path in (folder / "own").rglob("rank*.jsonl"))
    if not traces:
        yield f"{own} wrote no trace of {SCENARIO}"
    for trace in traces:
        installed, repository = ((folder / name / trace).read_bytes().splitlines()[1:] for name in ("installed", "own"))
        if installed != repository or not installed:
            yield f"{trace} of the installed worker differs"


def problems_of_wheels(folder, version, commit, scratch, own):
    python_root = os.environ["python_root"]
    program, = folder.glob("lockstep-*.whl")
    worker, = folder.glob("lockstep_worker-*.whl")
    environment = Environment(scratch / "venv", python_root)
    before = files_in(environment.folder)
    environment.pip("install", "--no-index", program, worker)
    for name in ("lockstep", "lockstep-worker"):
        yield from problems_of_version(environment.bin / name, version, commit)
    activated = {**os.environ, "PATH": f"{environment.bin}:{os.environ['PATH']}"}
    run(environment.bin / "lockstep", "doctor", cwd=scratch, env=activated)
    said = run(environment.bin / "lockstep", "doctor", SCENARIO, env=activated)
    if "/lockstep_worker/lockstep-worker, build " not in said:
        yield "lockstep does not start the program in site-packages"
    yield from problems_of_traces(environment.bin, own, scratch)
    environment.pip("uninstall", "--yes", "lockstep", "lockstep-worker")
    yield from problems_of_removal("the wheels", before, files_in(environment.folder))


def problems_of_debian(folder, version, commit, scratch):
    package, = folder.glob("*.deb")
    root = scratch / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    (root / "var/lib/dpkg/status").touch()
    (scratch / "bin").mkdir()
    (scratch / "bin/ldconfig").symlink_to("/bin/true")  # which the package calls, and which would write into /etc
    dpkg = ("env", f"PATH={scratch}/bin:{os.environ['PATH']}", "dpkg", f"--root={root}", f"--log={scratch}/log",
            "--force-not-root,depends,script-chrootless")

    def files():
        return {name for name in files_in(root) if not name.startswith("var/lib/dpkg/")}

    before = files()
    run(*dpkg, "--install", package)
    yield from problems_of_version(root / "usr/bin/lockstep", version, commit)
    run(*dpkg, "--purge", "lockstep")
    yield from problems_of_removal(package.name, before, files())


def problems_of_source(folder, version, commit):
    """The archive of the commit, byte for byte."""
    archive, = folder.glob("*.tar.gz")
    words = ["git", "archive", "--format=tar", f"--prefix=lockstep-{version}/", commit]
    tar = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
    again = subprocess.run(["gzip", "-9n"], input=tar, capture_output=True, check=True).stdout
    if archive.read_bytes() != again:
        yield f"{archive.name} is not what git archives"


def problems_in(folder, version, commit, own):
    yield from problems_of_set(folder, version)
    machine = [ROOT, pathlib.Path.home() / ".cache", os.environ["LOCKSTEP_CACHE"]]
    for package in sorted(folder.iterdir()):
        if package.name != "SHA256SUMS":
            yield from problems_of(package, machine)
    yield from problems_of_source(folder, version, commit)
    with tempfile.TemporaryDirectory(prefix="lockstep-packages-") as scratch:
        yield from problems_of_debian(folder, version, commit, pathlib.Path(scratch))
        yield from problems_of_wheels(folder, version, commit, pathlib.Path(scratch), own)


def main():
    folder, version, commit, own = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    found = list(problems_in(folder, version, commit, own))
    print("\n".join(found) or f"the packages in {folder} are whole; each was installed, tried and removed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
