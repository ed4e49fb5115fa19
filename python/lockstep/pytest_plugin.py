"""pytest: training functions in ranks, recorded and judged.

    def train(lr: float = 0.1) -> None:  # each rank calls it, in a Gloo process group
        ...

    @pytest.mark.lockstep(world_size=2)
    def test_ranks_stay_together(lockstep):
        lockstep.check(["ranks_agree", "reduction"], lockstep.variant(train))

    @pytest.mark.lockstep(world_size=2)
    def test_warmup_of_zero_is_none(lockstep):
        lockstep.check("equal", lockstep.variant(train), lockstep.variant(train, warmup=0))

A check that does not hold, or cannot tell, fails the test with the verdict. Files *.lockstep.json and *.lockstep.jsonc
are collected, too: each is a test that runs the scenario.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Union

import pytest

from lockstep import _program

#: A check by its name, or as a scenario has it: {"that": "ranks_differ", "on": ["samples"]}.
Check = Union[str, Mapping[str, Any]]

#: Exit code where this machine cannot run a scenario that allows for it.
_UNSUPPORTED = 77


@dataclass(frozen=True)
class Settings:
    """What the marker says: of a test, or of all in its class or module."""

    world_size: int = 2
    promises: Mapping[str, Any] = field(default_factory=dict)  #: as in a scenario
    process_group: bool = True  #: false: the function makes its own
    deadline_s: float = 600  #: of each training


@dataclass(frozen=True)
class Variant:
    """A training function and what it is called with."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    world_size: int | None = None
    promises: Mapping[str, Any] | None = None

    def task(self, settings: Settings) -> dict[str, Any]:
        """What a rank has to know. Raises ValueError where a rank could not find the function."""
        name, code = getattr(self.function, "__qualname__", "?"), getattr(self.function, "__code__", None)
        if code is None or "<" in name:
            raise ValueError(f"{name} is no function at the top of a module: each rank imports it from there")
        return {"path": sys.path, "module": self.function.__module__, "file": os.path.abspath(code.co_filename),
                "function": name, "arguments": dict(self.arguments), "process_group": settings.process_group}


class Lockstep:
    """The fixture `lockstep`."""

    def __init__(self, settings: Settings, name: str, make_folder: Callable[[], pathlib.Path]) -> None:
        self._settings, self._name, self._make_folder = settings, name, make_folder

    def variant(self, function: Callable[..., Any], *, world_size: int | None = None,
                promises: Mapping[str, Any] | None = None, **arguments: Any) -> Variant:
        """A training: the function is called with these arguments, which JSON has to be able to hold.

        `world_size` and `promises` are those of the marker unless they are said here.
        """
        return Variant(function, arguments, world_size, promises)

    def check(self, checks: Check | Sequence[Check], *variants: Variant, repeats: int = 1) -> None:
        """Trains all variants, each in its own ranks, and fails the test unless all checks hold."""
        if not variants:
            raise TypeError("check() needs a variant: lockstep.variant(train)")
        listed: Sequence[Check] = [checks] if isinstance(checks, (str, Mapping)) else checks
        folder = self._make_folder()
        names = [f"{variant.function.__name__}-{index}" for index, variant in enumerate(variants)]
        for name, variant in zip(names, variants):
            (folder / f"{name}.json").write_text(json.dumps(variant.task(self._settings)), encoding="utf-8")
        scenario = self._scenario(folder, dict(zip(names, variants)), [_complete(check, names) for check in listed])
        scenario["repeats"] = max(repeats, 2 if any(c["that"] == "repeatable" for c in scenario["checks"]) else 1)
        file = folder / "scenario.json"
        file.write_text(json.dumps(scenario, indent=1), encoding="utf-8")
        _judge(file, "--out", str(folder / "runs"))

    def _scenario(self, folder: pathlib.Path, variants: Mapping[str, Variant],
                  checks: list[dict[str, Any]]) -> dict[str, Any]:
        command = [_plain(sys.executable), "-m", "lockstep._ranks", "{world_size}", "{port}",
                   _plain(str(folder)) + "/{variant}.json"]
        environment = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}  # as torchrun does
        return {"name": _name_from(self._name), "description": f"pytest: {self._name}",
                "world_size": self._settings.world_size, "promises": dict(self._settings.promises),
                "program": {"command": command, "directory": os.getcwd(),
                            "environment": environment},
                "launch": {"deadline_s": self._settings.deadline_s},
                "variants": {name: _changes(variant) for name, variant in variants.items()}, "checks": checks}


def _judge(file: pathlib.Path, *options: str) -> None:
    """Runs a scenario and prints its verdict. Fails the test unless all checks hold; skips it if it is unsupported."""
    ended = subprocess.run([_program.find(), "run", str(file), "--quiet", *options], text=True, errors="replace",
                           capture_output=True)
    if ended.returncode == 0:
        print(ended.stdout, end="")
        return
    outcome = pytest.skip if ended.returncode == _UNSUPPORTED else pytest.fail
    report = f"{(ended.stdout or ended.stderr).rstrip()}\n(lockstep run {file}: exit code {ended.returncode})"
    raise outcome.Exception(report, pytrace=False)


class ScenarioFile(pytest.File):
    """A scenario beside the tests: one test."""

    def collect(self) -> Iterator[ScenarioItem]:
        yield ScenarioItem.from_parent(self, name=self.path.name.partition(".lockstep.json")[0])


class ScenarioItem(pytest.Item):
    def runtest(self) -> None:
        _judge(self.path)

    def reportinfo(self) -> tuple[pathlib.Path, None, str]:
        return self.path, None, f"scenario {self.name}"


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> ScenarioFile | None:
    is_scenario = file_path.name.endswith((".lockstep.json", ".lockstep.jsonc"))
    return ScenarioFile.from_parent(parent, path=file_path) if is_scenario else None


def _changes(variant: Variant) -> dict[str, Any]:
    said = {"world_size": variant.world_size, "promises": variant.promises}
    return {key: value for key, value in said.items() if value is not None}


def _complete(check: Check, names: list[str]) -> dict[str, Any]:
    """A check of all variants, unless it names some."""
    whole = {"that": check} if isinstance(check, str) else dict(check)
    if whole.get("that") == "resumes":
        return {**dict(zip(("straight", "interrupted"), names)), **whole}
    return {"variants": names, **whole}


def _plain(text: str) -> str:
    """In a scenario's command a brace begins a placeholder."""
    return text.replace("{", "{{")


def _name_from(text: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "-", text.rpartition("::")[2].lower()).strip("-._")[:80] or "test"


@pytest.fixture
def lockstep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lockstep:
    """Runs training functions in ranks, records them and holds them to checks."""
    known = [item.name for item in fields(Settings)]
    said: dict[str, Any] = {}
    for marker in request.node.iter_markers("lockstep"):  # the closest first
        unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in known)]
        if unknown:
            raise pytest.UsageError(f"pytest.mark.lockstep knows {', '.join(known)}; not {', '.join(unknown)}")
        said = {**marker.kwargs, **said}
    return Lockstep(Settings(**said), request.node.nodeid, lambda: tmp_path_factory.mktemp("lockstep"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lockstep(world_size=2, promises={}, process_group=True, deadline_s=600): "
                            "how the fixture lockstep runs training functions")
