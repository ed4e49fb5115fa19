"""Shows that a change leaves every verdict as it was.

    git checkout BEFORE && ci/verdicts /tmp/before.json && git checkout AFTER && ci/verdicts --against /tmp/before.json

The first form judges all shipped scenarios with the build at hand, and writes the results. The second one judges them
anew, and lists what differs. With scenarios named after FILE, only these are judged and compared. LOCKSTEP may name
another program than that of build/. Exit codes: 0 nothing differs but wording; 1 something does; 2 nothing was judged.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lib.repository import ROOT, NothingJudged

FOLDERS = ("gate", "systems", "faults", "traps", "alone", "audit", "audit/checkpoint")
#: Texts for people; where they differ alone, only the wording changed.
WORDING = {"why", "next", "explanation", "evidence", "shows", "text", "sentence", "remedy", "relation", "log_tail",
           "warnings"}
#: Of the moment, of the build, or of the file's place.
OMITTED = {"wall_s", "build", "reproduce", "file", "description", "practices"}


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a result by their path. A check is found by its name, so others may come before it."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in OMITTED:
                yield from flat(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and not all(isinstance(part, (str, int, float)) for part in value):
        for index, part in enumerate(value):
            name = part.get("name") or part.get("run") if isinstance(part, dict) else None
            yield from flat(part, f"{path}[{name or index}]")
    else:
        yield path, value


def values_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """All leaves of the results of some scenarios."""
    return {f"{scenario}: {path}": value for scenario, result in results.items() for path, value in flat(result)}


def is_wording(path: str) -> bool:
    """Whether the value there is a text for people."""
    return any(part.split("[")[0] in WORDING for part in path.split(".")) and not path.endswith("].relation")


@dataclass
class Comparison:
    """How the values of two runs differ."""

    different: list[str]
    wording: int


def shown(values: Mapping[str, Any], path: str) -> str:
    """One value, or that there is none."""
    return json.dumps(values[path]) if path in values else "absent"


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Every value that one side lacks, or that the sides have otherwise."""
    paths = [path for path in sorted(before.keys() | after.keys())
             if path not in before or path not in after or before[path] != after[path]]
    different = [f"{path}\n  before {shown(before, path)}\n  after  {shown(after, path)}"
                 for path in paths if not is_wording(path)]
    return Comparison(different, len(paths) - len(different))


def of_scenarios(values: Mapping[str, Any], scenarios: Sequence[str]) -> dict[str, Any]:
    """The values of these scenarios alone."""
    return {path: value for path, value in values.items() if path.split(":")[0] in scenarios}


def name_of(scenario: str) -> str:
    """scenarios/gate/mlp.jsonc: gate/mlp"""
    name = scenario[len("scenarios/"):] if scenario.startswith("scenarios/") else scenario
    return name.rpartition(".json")[0] or name


def shipped(quick: bool) -> list[str]:
    """All scenarios, or all but the clean pairs."""
    files = [str(file) for folder in FOLDERS for file in sorted(pathlib.Path("scenarios", folder).glob("*.json*"))]
    return [file for file in files if not quick or not file.startswith("scenarios/traps/clean.")]


def command_for(scenario: str) -> list[str]:
    """What judges a file of this folder."""
    folder = pathlib.PurePath(scenario).parent
    if folder.name == "audit":
        return ["audit", "scaling"]
    return ["audit", "checkpoint"] if folder.match("audit/checkpoint") else ["run"]


def result_of(lockstep: str, scenario: str) -> Any:
    """Judges a scenario. One that is not green has a result, too."""
    if not os.path.isfile(scenario):
        raise NothingJudged(f"{scenario} is missing")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "result.json")
        ended = subprocess.run([lockstep, *command_for(scenario), scenario, "--json", str(file)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                               check=False)
        if not file.is_file() or not file.stat().st_size:
            said = "\n".join(ended.stderr.splitlines()[-20:])
            raise NothingJudged(f"{scenario} gave no result:\n{said}")
        return json.loads(file.read_text(encoding="utf-8"))


def built() -> str:
    """The program that LOCKSTEP names, or that of the sources."""
    lockstep = os.environ.get("LOCKSTEP")
    if lockstep:
        return lockstep
    for command in (["ci/setup"], ["ci/build", "lockstep", "lockstep-worker"]):
        if subprocess.run(command, check=False).returncode != 0:
            raise NothingJudged(f"{command[0]} failed")
    return "build/bin/lockstep"


def arguments_of(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ci/verdicts", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="leaves out the clean pairs of scenarios/traps, which take 20 minutes")
    parser.add_argument("--against", action="store_true", help="compares with FILE instead of writing it")
    parser.add_argument("file", type=pathlib.Path, metavar="FILE")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    return parser.parse_intermixed_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Judges, and writes or compares. Names of files are as seen from the root."""
    options = arguments_of(arguments)
    os.chdir(ROOT)
    if options.against and not (options.file.is_file() and options.file.stat().st_size):
        raise NothingJudged(f"{options.file} is missing or empty: write it first with ci/verdicts {options.file}")
    lockstep, begin, results = built(), time.monotonic(), {}
    for scenario in options.scenarios or shipped(options.quick):
        results[name_of(scenario).replace("/", ".")] = result_of(lockstep, scenario)
        print(f"ci/verdicts: {name_of(scenario)} (at {time.monotonic() - begin:.0f} s)", file=sys.stderr)
    if not results:
        raise NothingJudged("there is no scenario")
    found = values_of(results)
    if not options.against:
        options.file.write_text(json.dumps(found, indent=0), encoding="utf-8")
        print(f"{len(found)} values of {len(results)} scenarios written to {options.file}")
        return 0
    expected = json.loads(options.file.read_text(encoding="utf-8"))
    if options.scenarios:
        expected = of_scenarios(expected, list(results))
    comparison = compared(expected, found)
    print(*comparison.different, sep="\n", end="\n" if comparison.different else "")
    print(f"{len(expected)} values before, {len(found)} after: {len(comparison.different)} differ, "
          f"{comparison.wording} in wording only")
    return 1 if comparison.different else 0
