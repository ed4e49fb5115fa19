"""Folders of the cache: each is whole, or is made anew."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lib.repository import NothingJudged

PIP_OPTIONS = ("--quiet", "--no-cache-dir", "--only-binary=:all:")


class Part(Protocol):
    """One folder of the cache."""

    @property
    def says(self) -> str:
        """What is fetched, and where to."""

    def is_complete(self) -> bool:
        """Whether nothing is left to do."""

    def make(self) -> None:
        """Makes it. Raises NothingJudged, and leaves nothing then."""


@contextlib.contextmanager
def locked(cache: pathlib.Path) -> Iterator[None]:
    """One set-up at a time."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "setup.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(part: Part, cache: pathlib.Path) -> None:
    """Makes the part unless it is there; whoever waited for the lock finds the work done."""
    if part.is_complete():
        return
    with locked(cache):
        if not part.is_complete():
            print(f"ci/setup: {part.says}", file=sys.stderr, flush=True)
            part.make()


def stamp(folder: pathlib.Path, requirements: pathlib.Path) -> None:
    """Says that the folder is whole. The stamp is a copy of the requirements that it was made from."""
    shutil.copyfile(requirements, folder / ".complete")


def is_stamped(folder: pathlib.Path, requirements: pathlib.Path) -> bool:
    """Whether the folder was made from these requirements, to its end."""
    try:
        return (folder / ".complete").read_bytes() == requirements.read_bytes()
    except OSError:
        return False


@contextlib.contextmanager
def whole_or_absent(folder: pathlib.Path) -> Iterator[None]:
    """Begins without the folder, and removes it if the work ends early."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def succeeds(*command: str | pathlib.Path) -> bool:
    """Runs a command; all that it says goes to stderr."""
    stderr = 2
    return subprocess.run(list(map(str, command)), stdout=stderr, check=False).returncode == 0


def pip(environment: pathlib.Path, *arguments: str | pathlib.Path) -> bool:
    """Runs an environment's pip, which takes packages from where it is configured to."""
    return succeeds(environment / "bin/pip", "--disable-pip-version-check", *arguments)


def make_venv(folder: pathlib.Path) -> None:
    """Makes an empty virtual environment."""
    if not succeeds("python3", "-m", "venv", folder):
        raise NothingJudged("python3 cannot make a virtual environment")


@dataclass(frozen=True)
class Environment:
    """A virtual environment. It cannot be moved: it is made in place, and complete once its stamp is there."""

    folder: pathlib.Path
    requirements: pathlib.Path
    holds: str  #: for people
    imports: Sequence[str]  #: which must work in the end
    beside: pathlib.Path | None = None  #: an environment whose packages it takes, too

    @property
    def says(self) -> str:
        return f"installing {self.holds} into {self.folder}"

    def is_complete(self) -> bool:
        return is_stamped(self.folder, self.requirements) and os.access(self.folder / "bin/python", os.X_OK)

    def make(self) -> None:
        with whole_or_absent(self.folder):
            make_venv(self.folder)
            if self.beside is not None:
                link = packages_of(self.folder) / "torch.pth"
                link.write_text(f"{packages_of(self.beside)}\n", encoding="utf-8")
            if not pip(self.folder, "install", *PIP_OPTIONS, "--requirement", self.requirements):
                raise NothingJudged(f"could not install {self.requirements} (pip says why above); nothing was kept")
            if not succeeds(self.folder / "bin/python", "-c", f"import {', '.join(self.imports)}"):
                raise NothingJudged(f"what {self.requirements} installed cannot be imported")
            stamp(self.folder, self.requirements)


def packages_of(environment: pathlib.Path) -> pathlib.Path:
    """Its site-packages."""
    found = sorted(environment.glob("lib/python3.*/site-packages"))
    if not found:
        raise NothingJudged(f"{environment} is no virtual environment")
    return found[0]
