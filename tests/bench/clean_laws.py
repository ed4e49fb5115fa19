"""All laws against clean trainings, of which none may break: clean_laws.py [--runs N] [--seed S] [--part K/N]
        [--only I,…] [--set PATH=VALUE …] [--worker WORKER]

Training I of seed S is always the same. Models and optimizers are taken in turn, all else is drawn: hyperparameters,
schedule, precision, sampler, ranks, steps, rate up to divergence, clipping, accumulation, averages, evaluation,
checkpoints.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = bool(os.environ.get("LOCKSTEP_BENCH_SMOKE"))
#: A training that is given its rate times more than this may become NaN: `finite` is broken by right then.
STEEP = 10

MODELS = {
    "linear": {"kind": "linear"},
    "mlp": {"kind": "mlp", "hidden": [16]},
    "lenet": {"kind": "lenet"},
    "resnet": {"kind": "resnet", "widths": [4]},
    "transformer": {"kind": "transformer", "width": 8, "heads": 2, "layers": 1},
    "branch": {"kind": "branch", "width": 16},
}
RATES = {"sgd": 0.05, "adam": 0.003, "adamw": 0.003, "adamax": 0.003, "rmsprop": 0.002, "lamb": 0.01}


def sometimes(draw, chance, value):
    return value if draw.random() < chance else {}


def optimizer_of(draw, kind):
    """Hyperparameters, and how many times the usual rate."""
    times = draw.choice([1, 1, 1, 1, 0.1, 10 ** draw.uniform(-2, 1), 10 ** draw.uniform(0, 2),
                         10 ** draw.uniform(2, 6)])
    options = {"kind": kind, "lr": RATES[kind] * times}
    if draw.random() < 0.5:
        options["weight_decay"] = draw.choice([0, 1e-4, 0.01, 0.1])
    if kind == "sgd":
        options["momentum"] = draw.choice([0, 0.5, 0.9, 0.99])
        if options["momentum"] and draw.random() < 0.3:
            options["nesterov"] = True
        elif draw.random() < 0.3:
            options["dampening"] = draw.choice([0.1, 0.5])
    elif kind == "rmsprop":
        options.update(alpha=draw.choice([0.9, 0.99]), momentum=draw.choice([0, 0, 0.9]), centered=draw.random() < 0.4)
    else:
        options["betas"] = draw.choice([[0.9, 0.999], [0.9, 0.99], [0.5, 0.9], [0, 0.99], [0.95, 0.98]])
    if kind != "sgd" and draw.random() < 0.2:
        options["eps"] = draw.choice([1e-10, 1e-6, 1e-3])
    if kind in ("adam", "adamw"):
        options["amsgrad"] = draw.random() < 0.3
        options["fused"] = draw.random() < 0.4
    if draw.random() < 0.3:
        options["groups"] = [{"parameters": "*bias", "weight_decay": 0},
                             {"parameters": draw.choice(["*1*", "fc*", "*weight"]), "lr": options["lr"] / 2}]
    return options, times


def schedule_of(draw, steps):
    some = max(1, steps // 3)
    return draw.choice([
        {"kind": "constant"}, {"kind": "constant"},
        {"kind": "step", "every": some, "gamma": 0.5}, {"kind": "multistep", "milestones": [some, 2 * some]},
        {"kind": "warmup_cosine", "period": steps, "warmup": some}, {"kind": "cosine", "period": steps},
        {"kind": "warmup_multistep", "milestones": [some, 2 * some], "warmup": some},
        {"kind": "linear_warmup", "warmup": some}, {"kind": "inverse_sqrt", "warmup": some},
        {"kind": "plateau", "patience": 2, "factor": 0.5}])


def precision_of(draw):
    return draw.choice([
        {}, {}, {"precision": "float64"}, {"autocast": "bf16"}, {"gradient": {"loss_scale": 1024}},
        {"autocast": "fp16", "gradient": {"loss_scale": draw.choice([256, 65536.0, 2.0**24]),
                                          "dynamic_scale": {"interval": draw.choice([3, 10, 2000])}}}])


def sampler_of(draw):
    """Without set_epoch: false and shard: false, which are mistakes."""
    shuffles = {"shuffle": draw.random() < 0.7, "drop_last": draw.random() < 0.5, "seed": draw.choice([0, 7])}
    even = draw.random() < 0.7
    return draw.choice([
        {"kind": "distributed", **shuffles}, {"kind": "distributed", **shuffles}, {"kind": "contiguous", **shuffles},
        {"kind": "none"},
        {"kind": "accelerate", **shuffles, "even_batches": even, **({} if even else {"drop_last": True})},
        {"kind": "accelerate"}, {"kind": "dispatch"}, {"kind": "elastic", "start": draw.choice([0, 5])},
        {"kind": "libtorch"}, {"kind": "stream", "buffer": draw.choice([1, 4])}])


def data_of(draw, model, size, texts):
    if model == "transformer":
        return {"kind": "text", "path": str(texts), "length": draw.choice([8, 12])}
    if draw.random() < 0.2:
        return {"kind": "synthetic", "size": size}
    if model == "lenet" and draw.random() < 0.2:
        return {"kind": "image_folder", "path": f"{ROOT}/scenarios/data/formats/pictures", "size": 16,
                "augment": draw.choice(["none", "sample"])}
    return {"kind": "digits", "path": f"{ROOT}/scenarios/data/digits.csv.gz", "size": size}


def ddp_of(draw, model):
    return {"find_unused_parameters": model == "branch", "gradient_as_bucket_view": draw.random() < 0.3,
            **sometimes(draw, 0.2, {"bucket_mb": 0.001}), **sometimes(draw, 0.1, {"reduction": "rank_order"}),
            **sometimes(draw, 0.1, {"compression": draw.choice(["fp16", "bf16", "fp64"])}),
            **sometimes(draw, 0.1, {"broadcast_buffers": False})}


def training(seed, index, texts):
    """Variants of one training: it alone, or one that saves and one that goes on from there."""
    draw = random.Random(f"{seed}/{index}")
    model, kind = list(itertools.product(MODELS, RATES))[index % (len(MODELS) * len(RATES))]
    world = draw.choice([1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8])
    steps = min(round(5 * 40 ** draw.random() ** 2), 200 if world <= 3 and model in ("linear", "mlp", "branch") else 30)
    optimizer, times = optimizer_of(draw, kind)
    accumulation, micro = draw.choice([1, 1, 1, 2, 3]), draw.choice([2, 3, 4])
    sampler = sampler_of(draw)
    train = {"model": dict(MODELS[model]), "optimizer": optimizer, "schedule": schedule_of(draw, steps), "steps": steps,
             "sampler": sampler, "ddp": ddp_of(draw, model), **precision_of(draw),
             "batch": {"per_rank": micro * accumulation, "accumulation": accumulation},
             "seed": {"base": index, "policy": draw.choice(["same", "add_rank", "mt_list", "after_model"])},
             "determinism": {"threads": draw.choice([1, 1, 2]) if world == 1 else 1,
                             "cpu": draw.choice(["native", "portable"])},
             # The law `backward` needs a step whose slopes are measured.
             "record": {"capture": [{"step": draw.randrange(steps), "channel": "gradient.local"}]}}
    if model in ("mlp", "transformer") and draw.random() < 0.3:
        train["model"]["dropout"] = 0.2
    if model == "resnet" and draw.random() < 0.3:
        train["model"]["norm"] = "sync_batch"
    # Each rank has a batch left after all that an evaluation holds out, a sampler leaves out, or a dropped round takes.
    size = world * micro * (accumulation * draw.randint(1, 4) + 1) + draw.randrange(world * micro) + 11
    train["data"] = data_of(draw, model, size, texts)
    if sampler["kind"] not in ("accelerate", "dispatch") and draw.random() < 0.3:
        train["batch"]["drop_last"] = True
    if accumulation > 1 and draw.random() < 0.3:
        train["batch"].update(draw.choice([{"no_sync": False}, {"at_epoch_end": "update"}]))
    if "loss_scale" in train.get("gradient", {}):
        optimizer.pop("fused", None)
    if draw.random() < 0.3:
        train.setdefault("gradient", {})[
            draw.choice(["clip_norm", "clip_norm", "clip_value"])] = draw.choice([0.05, 1, 100])
    train.update(sometimes(draw, 0.2, {"ema": {"decay": draw.choice([0.9, 0.999])}}))
    train.update(sometimes(draw, 0.1, {"loss": {"average": "world"}}))
    train.update(sometimes(draw, 0.2, {"schedule_every": draw.choice(["epoch", "rank"])}))
    train.update(sometimes(draw, 0.15, {
        "learning_rate_rule": {"kind": draw.choice(["linear", "sqrt"]), "base_batch": 8}}))
    if train["data"].get("augment", "none") == "none" and draw.random() < 0.2:
        train["evaluation"] = {"samples": 6, "every": draw.choice([1, 3]), "batch": 4,
                               "shares": draw.choice(["padded", "trimmed", "leftovers", "all"]),
                               "reduce": draw.choice(["all", "all", "root", "none"])}
        if train["evaluation"]["reduce"] == "none":  # a rank that evaluates nothing has no mean of its own
            train["evaluation"]["samples"] = max(6, world)
    name = f"{index}-{model}-{kind}"
    if steps < 6 or "dynamic_scale" in train.get("gradient", {}) or draw.random() > 0.15:
        return {name: {"world_size": world, "train": train}}, times
    first = {**train, "checkpoint": {"save_after": steps // 2}}
    rest = {**train, "checkpoint": {"load": {"from": f"{name}-saved"}},
            "record": {"capture": [{"step": steps - 1, "channel": "gradient.local"}]}}
    return {f"{name}-saved": {"world_size": world, "train": first}, name: {"world_size": world, "train": rest}}, times


def check(lockstep, folder, variants, run_options):
    """Trains, asks all laws, and yields (variant, what lockstep check says of it); of one that was refused, nothing."""
    scenario, told = folder / "clean.json", folder / "told.json"
    scenario.write_text(json.dumps({"name": "clean", "description": "Clean trainings.", "variants": variants,
                                    "checks": [{"that": "finishes"}]}))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        ran = subprocess.run([lockstep, "run", scenario, "--out", out, *run_options], capture_output=True, text=True,
                             env={**os.environ, "TMPDIR": str(folder)})
        if ran.returncode != 0:
            print(ran.stdout, file=sys.stderr)
        runs = {name: pathlib.Path(out, "clean", name, "0") for name in variants}
        runs = {name: run for name, run in runs.items() if any(run.glob("rank*.jsonl"))}
        if not runs:
            sys.exit(f"clean_laws: no training ran\n{ran.stderr}")
        told.unlink(missing_ok=True)
        asked = subprocess.run([lockstep, "check", *runs.values(), "--json", told], capture_output=True, text=True)
        if not told.exists():
            sys.exit(f"clean_laws: lockstep check wrote no result\n{asked.stderr}")
        answers = dict(zip(runs, json.loads(told.read_text())["runs"]))
        yield from ((name, answers.get(name)) for name in variants)


class Tally:
    """Outcomes of all laws over all runs."""

    def __init__(self):
        self.outcomes = collections.defaultdict(collections.Counter)
        self.untold, self.alarms, self.runs, self.diverged = collections.Counter(), [], 0, 0

    def add(self, run, answer, times, again):
        if answer is None or answer["incomplete"]:
            self.alarms.append(f"{run}: {answer['incomplete'] if answer else 'it did not start'}; {again}")
            return
        self.runs += 1
        for law in answer["laws"]:
            outcome = law["outcome"]
            if outcome == "broken" and law["law"] == "finite" and times > STEEP:
                self.diverged += 1
                outcome = "diverged"
            self.outcomes[law["law"]][outcome] += 1
            if outcome == "cannot tell":
                self.untold[law["law"], law["why"]] += 1
            if outcome == "broken":
                at = law["broken_at"]
                where = ", ".join(f"{key} {at[key]}" for key in ("step", "channel", "tensor", "rank"))
                self.alarms.append(f"{run}: {law['law']} at {where}: expected {at['expected']}, actual {at['actual']}, "
                                   f"cause {law['cause']}; {again}")
                print("ALARM", self.alarms[-1], flush=True)

    def summary(self):
        total = sum(self.outcomes.values(), collections.Counter())
        asked = total.total() - total["does not apply"]
        return {"runs": self.runs, "diverged": self.diverged, "asked": asked, "held": total["holds"],
                "cannot_tell": total["cannot tell"], "alarms": self.alarms,
                "laws": {name: dict(counts) for name, counts in self.outcomes.items()},
                "reasons": [{"law": law, "why": why, "times": count}
                            for (law, why), count in self.untold.most_common()]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=6 if SMOKE else 1100,
                        help="trainings; those that go on count once more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="the K-th of N equal parts")
    parser.add_argument("--only", help="only these trainings, by number")
    parser.add_argument("--batch", type=int, default=24, help="trainings in one call of lockstep run")
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/bin/lockstep")
    parser.add_argument("--set", action="append", default=[],
                        help="of every training: train.record.every=3, train.device=cuda")
    parser.add_argument("--worker", type=pathlib.Path, help="the lockstep-worker to start")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    chosen = list(map(int, options.only.split(","))) if options.only else list(range(options.runs))[part - 1::parts]
    run_options = [part for one in options.set for part in ("--set", one)]
    run_options += ["--worker", options.worker] if options.worker else []
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts = folder / "text.txt"
        texts.write_text((ROOT / "scenarios/data/sonnets.txt").read_text()[:1200])
        for begin in range(0, len(chosen), options.batch):
            variants, about = {}, {}
            for index in chosen[begin:begin + options.batch]:
                made, times = training(options.seed, index, texts)
                variants.update(made)
                about.update({run: (times, f"clean_laws.py --seed {options.seed} --only {index}") for run in made})
            for run, answer in check(options.lockstep, folder, variants, run_options):
                tally.add(run, answer, *about[run])
            print(f"{begin + len(about)} of {len(chosen)}: {len(tally.alarms)} alarms", file=sys.stderr, flush=True)
    result = tally.summary()
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    for law, counts in result["laws"].items():
        print(f"{law:11}", ", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items())))
    for reason in result["reasons"]:
        print(f"cannot tell {reason['law']} in {reason['times']}: {reason['why']}")
    print(f"{result['runs']} runs, {result['diverged']} diverged; {result['asked']} laws asked, {result['held']} held, "
          f"{result['cannot_tell']} cannot tell; {len(result['alarms'])} alarms")
    for alarm in result["alarms"]:
        print(alarm)
    sys.exit(1 if result["alarms"] else 0)


if __name__ == "__main__":
    main()
