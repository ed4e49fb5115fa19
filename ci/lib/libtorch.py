"""The LibTorch that ci/libtorch.txt pins: the half of its wheels that a CPU program needs, 0.5 of 1.2 GB."""

from __future__ import annotations

import base64
import csv
import hashlib
import pathlib
import re
import shutil
import zipfile
from dataclasses import dataclass

from lib import installing
from lib.repository import NothingJudged

KEPT = ("torch/include/", "torch/version.py", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp",
        "nvidia/cu13/lib/libcudart.so", "nvidia/cu13/lib/libcupti.so")
#: Of the wheels, whatever Python the machine has.
PLATFORM = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none",
            "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_25_x86_64",
            "--platform", "manylinux2014_x86_64")
LINKED_BY_CUDA = ("libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so")


def version_in(folder: pathlib.Path) -> str | None:
    """As torch/version.py says it. None if there is none."""
    try:
        text = (folder / "torch/version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^__version__ = '(.*)'", text, re.MULTILINE)
    return found[1] if found else None


def is_libtorch(folder: pathlib.Path, version: str) -> bool:
    """Whether programs can be linked with it. It may be of any variant, as 2.11.0+cu130 is of 2.11.0."""
    found = version_in(folder)
    return (found is not None and re.fullmatch(rf"{re.escape(version)}([^0-9.].*)?", found) is not None and
            (folder / "torch/lib/libtorch_cpu.so").exists() and (folder / "torch/include").is_dir())


def check_own(folder: pathlib.Path, version: str) -> None:
    """Raises NothingJudged unless LOCKSTEP_TORCH_ROOT is the right LibTorch."""
    if not is_libtorch(folder, version):
        found = version_in(folder)
        holds = f"LibTorch {found}" if found else "no LibTorch"
        raise NothingJudged(f"LOCKSTEP_TORCH_ROOT={folder} holds {holds}, not LibTorch {version}")


def unpack_kept(wheels: pathlib.Path, target: pathlib.Path) -> None:
    """Unpacks what is needed of all wheels in a folder."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target, [name for name in archive.namelist()
                                        if name.startswith(KEPT) or ".dist-info/" in name])


@dataclass(frozen=True)
class LibTorch:
    """The folder is made aside and renamed, so it is whole or absent."""

    folder: pathlib.Path
    requirements: pathlib.Path
    version: str

    @property
    def says(self) -> str:
        return f"fetching LibTorch {self.version} (0.5 GB) into {self.folder}"

    def is_complete(self) -> bool:
        return installing.is_stamped(self.folder, self.requirements)

    def make(self) -> None:
        scratch = self.folder.parent / "unpacking"
        with installing.whole_or_absent(scratch):
            scratch.mkdir()
            installing.make_venv(scratch / "venv")
            if not installing.pip(scratch / "venv", "download", *installing.PIP_OPTIONS, "--no-deps", *PLATFORM,
                                  "--require-hashes", "--requirement", self.requirements, "--dest", scratch / "wheels"):
                raise NothingJudged(
                    "could not fetch LibTorch (pip says why above); nothing was kept, run this again")
            try:
                unpack_kept(scratch / "wheels", scratch / "torch")
            except (OSError, zipfile.BadZipFile) as why:
                raise NothingJudged(f"could not unpack LibTorch: {why}; nothing was kept, run this again") from None
            if not is_libtorch(scratch / "torch", self.version):
                raise NothingJudged(f"the wheels of {self.requirements} hold no LibTorch {self.version}")
            installing.stamp(scratch / "torch", self.requirements)
            if self.folder.exists():
                self.folder.rename(scratch / "old")
            (scratch / "torch").rename(self.folder)
        shutil.rmtree(scratch)


def sha256_of(file: pathlib.Path) -> str:
    """As a wheel's RECORD writes it."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return "sha256=" + base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def differs_from_pinned(pinned: pathlib.Path, found: pathlib.Path) -> str | None:
    """What of the packages that the preset "cuda" links is not of the pinned wheels. None if all is.

    ci/python.txt has no hashes. Its LibTorch is the pinned one if the libraries have the hashes that the wheel of
    ci/libtorch.txt lists, and its NVIDIA wheels are if they are of the versions that that wheel asks for.
    """
    info = next(pinned.glob("torch-*.dist-info"))
    with (info / "RECORD").open(encoding="utf-8", newline="") as record:
        hashes = {row[0]: row[1] for row in csv.reader(record)}
    for name in LINKED_BY_CUDA:
        file = found / "torch/lib" / name
        actual, expected = sha256_of(file) if file.is_file() else "missing", hashes["torch/lib/" + name]
        if actual != expected:
            return f"{file} is {actual}, not {expected}"
    needs = re.findall(r"^Requires-Dist: ((?:cuda|nvidia)-[\w-]+)(?:\[.*?\])?==([\d.]+)",
                       (info / "METADATA").read_text(encoding="utf-8"), re.MULTILINE)
    for name, version in needs:
        if not (found / f"{name.replace('-', '_')}-{version}.dist-info").is_dir():
            return f"{found} holds no {name} {version}"
    return None
