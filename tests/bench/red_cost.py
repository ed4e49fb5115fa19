"""The time of each planted fault's red run over that of its green twin: red_cost.py [--json FILE] [FILTER…]

A case is one check of scenarios/faults with what it expects, and the variants that it needs. Its twin runs the same
variants, as many times, without the defect: without `faults`; else with a plain load of the same checkpoint; else with
the settings of the other side or of the base. A twin that is not green even then only has to finish. Both in turns,
three times (--repeats); the medians count.
"""

import argparse
import copy
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = bool(os.environ.get("LOCKSTEP_BENCH_SMOKE"))


def scenario_of(file):
    return json.loads(re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE))


def variants_of(check):
    return check.get("variants") or [check[key] for key in ("straight", "interrupted") if key in check]


def cases():
    """(label, scenario with one check that is red) of each planted fault."""
    for file in sorted((ROOT / "scenarios/faults").glob("*.jsonc")):
        whole = scenario_of(file)
        for number, check in enumerate(whole["checks"]):
            if "expect" not in check:
                continue
            needed = list(variants_of(check)) or list(whole["variants"])
            for name in needed:  # grows: what a variant loads is needed, too
                load = whole["variants"][name].get("train", {}).get("checkpoint", {}).get("load", {})
                if load.get("from") in whole["variants"] and load["from"] not in needed:
                    needed.append(load["from"])
            part = {key: value for key, value in whole.items() if key not in ("$schema", "variants", "checks")}
            part["variants"] = {name: variant for name, variant in whole["variants"].items() if name in needed}
            part["checks"] = [{key: value for key, value in check.items() if key != "expect"}]  # as a user has it
            variant = needed[-1] if len(needed) == 1 else variants_of(check)[-1]
            yield f"{file.stem} {number}: {check['that']} {variant}", part


def twins(case):
    """Scenarios that may be the green twin, the most alike first."""
    check = {key: value for key, value in case["checks"][0].items() if key != "expect"}
    names = variants_of(check)
    plain = copy.deepcopy(case)
    plain["checks"] = [check]
    plain.get("train", {}).pop("faults", None)
    for variant in plain["variants"].values():
        variant.get("train", {}).pop("faults", None)
        variant.pop("launch", None)
    yield "no fault", plain
    loaded = copy.deepcopy(plain)
    for variant in loaded["variants"].values():
        load = variant.get("train", {}).get("checkpoint", {}).get("load")
        if load:
            variant["train"]["checkpoint"]["load"] = {"from": load["from"]}
    yield "plain load", loaded
    for way, model in (("settings of the other side", plain["variants"][names[0]] if len(names) > 1 else None),
                       ("base", {})):
        if model is not None and names:
            like = copy.deepcopy(plain)
            own = plain["variants"][names[-1]]
            like["variants"][names[-1]] = {**{k: v for k, v in own.items() if k == "world_size"},
                                           **{k: v for k, v in model.items() if k != "world_size"}}
            yield way, like
    finishes = copy.deepcopy(plain)
    finishes["checks"] = [{"that": "finishes"}]
    yield "only finishes", finishes


def run(folder, scenario, lockstep):
    """(exit code, seconds, result) of lockstep run."""
    file, result = folder / "scenarios" / "case.json", folder / "result.json"
    file.write_text(json.dumps(scenario))
    result.unlink(missing_ok=True)
    begin = time.monotonic()
    done = subprocess.run([lockstep, "run", file, "--json", result], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(folder)})
    took = time.monotonic() - begin
    return done.returncode, took, json.loads(result.read_text()) if result.exists() else {}


def experiments(result):
    """The trials that a result lists, with how often each was made."""
    found = {}

    def visit(value):
        if isinstance(value, dict):
            for trial in value.get("experiments", []):
                name = trial["control"]
                found[name] = found.get(name, 0) + 1
            for inner in value.values():
                visit(inner)
        elif isinstance(value, list):
            for inner in value:
                visit(inner)

    visit(result)
    return found


def measure(folder, label, case, repeats, lockstep):
    for way, twin in twins(case):  # noqa: B007 (needed behind the loop)
        code, took, _ = run(folder, twin, lockstep)
        if code == 0:
            break
    else:
        return None
    red, green, result = [], [took], {}
    for repeat in range(repeats):
        if repeat > 0:
            green.append(run(folder, twin, lockstep)[1])
        code, took, result = run(folder, case, lockstep)
        red.append(took)
    red, green = statistics.median(red), statistics.median(green)
    return {"case": label, "red": round(red, 2), "green": round(green, 2), "ratio": round(red / green, 1), "exit": code,
            "twin": way, "experiments": experiments(result)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1 if SMOKE else 3)
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/bin/lockstep")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("filter", nargs="*", help="only cases whose label contains one of these")
    options = parser.parse_args()
    chosen = [case for case in cases() if not options.filter or any(word in case[0] for word in options.filter)]
    rows, lost = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "scenarios").mkdir()
        (folder / "data").symlink_to(ROOT / "scenarios/data")
        for label, case in chosen[:1] if SMOKE else chosen:
            row = measure(folder, label, case, options.repeats, options.lockstep)
            if row is None:
                lost.append(label)
                continue
            rows.append(row)
            print(f"{row['ratio']:5.1f} x  red {row['red']:6.2f} s  green {row['green']:5.2f} s  {label} "
                  f"[exit {row['exit']}, twin: {row['twin']}] {row['experiments'] or ''}", flush=True)
    if options.json:
        options.json.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    for label in lost:
        print(f"no twin finishes: {label}", file=sys.stderr)
    if not rows:
        sys.exit("red_cost: nothing was measured")
    ratios = [row["ratio"] for row in rows]
    print(f"{len(rows)} cases: median {statistics.median(ratios):.1f} x, worst {max(ratios):.1f} x")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
