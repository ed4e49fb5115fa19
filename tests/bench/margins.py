"""Distance over bound (harness/compare/rounding.h) of clean pairs and of the smallest faults: margins.py [--write]

Clean pairs: one training at one and at more ranks, of an equal global batch, for each model and optimizer. Faults:
those of scenarios/faults/dose.jsonc, and a factor on all gradients of one step.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import margins_plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
SMOKE = bool(os.environ.get("LOCKSTEP_BENCH_SMOKE"))
STEPS = 4 if SMOKE else 40

#: Whole batches only: ranks whose shares of a short batch differ in size compute another mean.
BATCH = {"global": 24, "drop_last": True}
DIGITS = {"kind": "digits", "path": f"{ROOT}/scenarios/data/digits.csv.gz", "size": 96}
MODELS = {
    "linear": {"model": {"kind": "linear"}, "data": DIGITS},
    "mlp": {"model": {"kind": "mlp", "hidden": [64, 64]}, "data": DIGITS},
    "lenet": {"model": {"kind": "lenet"}, "data": DIGITS},
    "resnet": {"model": {"kind": "resnet", "widths": [8], "norm": "sync_batch"}, "data": DIGITS},
    "branch": {"model": {"kind": "branch"}, "data": DIGITS, "ddp": {"find_unused_parameters": True}},
    "transformer": {"model": {"kind": "transformer", "width": 16, "heads": 2, "layers": 2},
                    "data": {"kind": "text", "path": f"{ROOT}/scenarios/data/sonnets.txt", "length": 32}},
}
OPTIMIZERS = {
    "sgd": {"kind": "sgd", "lr": 0.1},
    "momentum": {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4},
    "adam": {"kind": "adam", "lr": 0.003},
    "adamw": {"kind": "adamw", "lr": 0.003},
    "adamax": {"kind": "adamax", "lr": 0.003},
    "rmsprop": {"kind": "rmsprop", "lr": 0.002},
    "lamb": {"kind": "lamb", "lr": 0.01},
}
WORLDS = (2, 4)
#: Faults of dose.jsonc that part from another variant than "clean", and variants that are none.
CLEAN_OF = {"one-clipped-while-scaled": "scaled", "even": "alone", "even-in-float32": "alone",
            "even-rounded-in-float32": "alone"}
NO_FAULTS = {"clean", "alone", "scaled", "half", "one-follower"}
#: Last steps of the ranges for which the smallest visible change is told.
UNTIL = (0, 1, 10, 20, 40)
#: A factor of 1 + 2^-k on all gradients of one step, and the steps that have it.
FACTORS, AT = (6, 8, 10, 12), (0, 20, 35)


def run(folder, scenario):
    """Runs all variants, without any control run. The folder of each variant's traces."""
    file = folder / f"{scenario['name']}.json"
    file.write_text(json.dumps({**scenario, "checks": [{"that": "finishes"}]}))
    out = folder / scenario["name"]
    subprocess.run([BIN / "lockstep", "run", file, "--out", out], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return lambda variant: out / scenario["name"] / variant / "0"


def measured(left, right):
    """The horizon of two runs, and for each (step, channel, tensor) the record that is nearest to its bound."""
    lines = subprocess.run([BIN / "rounding_margins", left, right], check=True, capture_output=True, text=True).stdout
    horizon, *records = map(json.loads, lines.splitlines())
    nearest = {}
    for record in records:
        if record["distance"] is None or not record["bound"]:
            continue  # not finite
        record["ratio"] = record["distance"] / record["bound"]
        place = record["step"], record["channel"], record["tensor"]
        if place not in nearest or nearest[place]["ratio"] < record["ratio"]:
            nearest[place] = record
    return horizon["horizon"], list(nearest.values())


def kind_of(record):
    """Kind of the layer that a record belongs to."""
    if record["channel"] in ("loss", "metric"):
        return "loss"
    if re.search(r"\bbn\d|_bn\b|\bshortcut_bn", record["tensor"]):
        return "batch norm"
    if "norm" in record["tensor"]:
        return "layer norm"
    return "embedding" if re.match(r"tokens|positions", record["tensor"]) else "convolution or matmul"


def shown(value):
    return float(f"{value:.3g}")


def quantiles(values):
    values = sorted(values)
    return {"count": len(values), "median": shown(values[len(values) // 2]),
            "p99": shown(values[len(values) * 99 // 100]), "max": shown(values[-1])}


def clean_pairs(folder):
    """(model, optimizer, ranks, factor on the learning rate, horizon, records) of each clean pair."""
    models = ("mlp", "transformer") if SMOKE else MODELS
    optimizers = ("momentum", "adam") if SMOKE else OPTIMIZERS
    worlds = WORLDS[:1] if SMOKE else WORLDS
    for model in models:
        for rate in (1, 10) if model in ("mlp", "transformer") and not SMOKE else (1,):
            variants = {name: {"train": {"optimizer": {**OPTIMIZERS[name], "lr": rate * OPTIMIZERS[name]["lr"]}}}
                        for name in optimizers}
            folder_of = run(folder, {
                "name": f"{model}-{rate}", "description": "One training at several world sizes.",
                "train": {"batch": BATCH, "steps": STEPS, **MODELS[model]}, "variants": variants,
                "matrix": {"world_size": [1, *worlds]}})
            for name in optimizers:
                for world in worlds:
                    yield (model, name, world, rate, *measured(*(folder_of(f"{name}-world_size={ranks}")
                                                                 for ranks in (1, world))))
            print(f"{model}, rates x {rate}: done", file=sys.stderr)


def largest(records):
    return max(records, key=lambda record: record["ratio"], default=None)


def at(record):
    return {key: record[key] for key in ("step", "channel", "tensor")} | {"ratio": shown(record["ratio"])}


def doses(folder):
    """For each fault of dose.jsonc the record that is furthest beyond its bound."""
    file = ROOT / "scenarios/faults/dose.jsonc"
    scenario = json.loads(re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE))
    reasons = {check.get("interrupted") or check["variants"][-1]: check["expect"]["reason"]
               for check in scenario.pop("checks") if "expect" in check}
    scenario["train"]["data"]["path"] = DIGITS["path"]
    folder_of = run(folder, scenario)
    for variant in scenario["variants"]:
        if variant in NO_FAULTS:
            continue
        found = largest(measured(folder_of(CLEAN_OF.get(variant, "clean")), folder_of(variant))[1])
        yield {"fault": variant, "what": reasons.get(variant, "no fault: one rank against three"),
               **({"ratio": 0} if found is None else at(found))}


def factors(folder):
    """Distance over bound of gradients that a factor of 1 + 2^-k changes at two ranks in a step, against one rank."""
    for model, optimizer in (("mlp", "momentum"), ("transformer", "adamw")):
        variants = {"clean": {}}
        for step in [step for step in AT if step < STEPS]:
            for k in FACTORS:
                fault = {"kind": "gradient_factor", "factor": 1 + 2.0**-k, "step": step}
                variants[f"{step}-{k}"] = {"world_size": 2, "train": {"faults": [fault]}}
        folder_of = run(folder, {
            "name": f"factor-{model}", "description": "A small factor in one step.", "variants": variants,
            "train": {"batch": BATCH, "steps": STEPS, "optimizer": OPTIMIZERS[optimizer], **MODELS[model]}})
        for variant in list(variants)[1:]:
            step, k = map(int, variant.split("-"))
            ratios = [record["ratio"] for record in measured(folder_of("clean"), folder_of(variant))[1]
                      if record["step"] == step and record["channel"] == "gradient"]
            yield {"model": model, "optimizer": optimizer, "step": step, "factor": f"1 + 2^-{k}",
                   "max": shown(max(ratios)), "beyond": sum(ratio > 1 for ratio in ratios), "of": len(ratios)}


def summary(folder):
    groups, sensitivity, pairs = (collections.defaultdict(list), collections.defaultdict(list), [])
    for model, optimizer, world, rate, horizon, records in clean_pairs(folder):
        before = [record for record in records if horizon is None or record["step"] < horizon]
        for record in before:
            groups[kind_of(record), optimizer, record["channel"]].append(record["ratio"])
            if record["norm"]:
                sensitivity[
                    record["channel"], min((step for step in UNTIL if record["step"] <= step), default=UNTIL[-1])
                ].append(record["bound"] / record["norm"])
        worst = largest(before)
        beyond = min((record for record in before if record["ratio"] > 1), key=lambda record: record["step"],
                     default=None)
        pairs.append({"model": model, "optimizer": optimizer, "ranks": world, "rate": rate, "horizon": horizon,
                      "max": worst and at(worst), "first_beyond": beyond and at(beyond)})
    return {
        "commit": subprocess.run(["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=ROOT, text=True,
                                 capture_output=True).stdout.strip(),
        "clean": [{"layer": layer, "optimizer": optimizer, "channel": channel, **quantiles(ratios)}
                  for (layer, optimizer, channel), ratios in sorted(groups.items())],
        "smallest_visible_change": [{"channel": channel, "until_step": step, **quantiles(values)}
                                    for (channel, step), values in sorted(sensitivity.items())],
        "pairs": pairs,
        "doses": sorted(doses(folder), key=lambda row: -row["ratio"]),
        "factors": list(factors(folder)),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="write docs/margins.svg, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = summary(pathlib.Path(folder))
    rows = {key: "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]" if isinstance(value, list)
            else json.dumps(value) for key, value in result.items()}
    text = "{\n" + ",\n".join(f'"{key}": {value}' for key, value in rows.items()) + "\n}\n"
    if options.write:
        (ROOT / "docs/margins.svg").write_text(margins_plot.svg(result))
    print(text, end="")


if __name__ == "__main__":
    main()
