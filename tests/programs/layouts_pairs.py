"""Trains layouts/train.py in every layout, compares each with each, and judges each: layouts_pairs.py [--write]

--write puts the table into docs/layouts.md. Exit code 1: a pair differs by more than rounding, or a run breaks a law.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch  # noqa: F401  (once)
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.tensor.parallel  # noqa: F401

from programs import HERE, LOCKSTEP, free_port, start_here

STEPS, TIMEOUT_S = 20, 180
LAYOUTS = [("single", 1), ("ddp", 2), ("fsdp", 2), ("tp", 2), ("ddp", 4), ("fsdp", 4), ("hsdp", 4), ("fsdp_tp", 4),
           ("ddp", 8), ("fsdp", 8), ("hsdp", 8), ("fsdp_tp", 8), ("hsdp_tp", 8)]
SETTINGS = [f"--net {net} --optimizer {optimizer}{more}" for net in ("transformer", "conv")
            for optimizer in ("adamw", "sgd") for more in ("", " --accumulate 2 --clip 0.3")]
PAGE = HERE.parents[1] / "docs/layouts.md"
BEGIN, END = "<!-- pairs -->\n", "<!-- end of pairs -->\n"


def train(script, words, world_size, directory, run):
    """In forks of this process, which has imported torch already. RuntimeError where a rank fails, or does not end."""
    common = {"LOCKSTEP_RECORD": str(run), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
              "WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        ranks = {start_here(script, directory, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, err=errors,
                            arguments=words) for rank in range(world_size)}
        codes, deadline = [], time.monotonic() + TIMEOUT_S
        while ranks and time.monotonic() < deadline and not any(codes):
            for rank, status in ((rank, os.waitpid(rank, os.WNOHANG)) for rank in list(ranks)):
                if status[0]:
                    ranks.remove(rank)
                    codes.append(os.waitstatus_to_exitcode(status[1]))
            time.sleep(0.01)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
            os.waitpid(rank, 0)
        if ranks or any(codes):
            errors.seek(0)
            raise RuntimeError(f"{' '.join(map(str, words))}: exit codes {codes}\n{errors.read()[-4000:]}")


def ask(*words):
    ended = subprocess.run([LOCKSTEP, *map(str, words), "--json", "-"], capture_output=True, text=True, timeout=300)
    return ended, json.loads(ended.stdout) if ended.stdout.startswith("{") else {}


def verdict_of(left, right):
    """"=", "≈" for rounding, and what was said for all else."""
    ended, said = ask("diff", left, right)
    if ended.returncode == 0:
        return "=", ""
    place = said.get("first_divergence") or {}
    at = " ".join(str(place.get(key)) for key in ("step", "channel", "tensor", "relation"))
    sign = "≈" if said.get("class") == "rounding" else "✗"
    return sign, f"{said.get('class')}, {said.get('cause')}, step {at}; {said.get('why')} {ended.stderr}"


def name_of(layout, world_size):
    return f"{layout} {world_size}"


def table(counts, names):
    """One row and one column for each layout; how many settings are equal, and how many are so up to rounding."""
    lines = ["| | " + " | ".join(names[:-1]) + " |", "|---" * len(names) + "|"]
    for row, name in enumerate(names[1:], 1):
        cells = [" ".join(f"{sign}{count}" for sign, count in sorted(counts[names[column], name].items()))
                 for column in range(row)]
        lines.append(f"| {name} | " + " | ".join(cells + [""] * (len(names) - 1 - row)) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--settings", nargs="*", default=SETTINGS)
    args = parser.parse_args()
    names = [name_of(*layout) for layout in LAYOUTS]
    counts = {pair: {} for pair in itertools.combinations(names, 2)}
    wrong, runs = [], 0
    for settings in args.settings:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-layouts-"))
        recorded = {}
        for layout, world_size in LAYOUTS:
            if "conv" in settings and "tp" in layout:
                continue
            run = scratch / f"{layout}-{world_size}"
            words = ["--layout", layout, "--steps", STEPS, *settings.split()]
            train(HERE / "layouts/train.py", words, world_size, scratch, run)
            runs += 1
            recorded[name_of(layout, world_size)] = run
            judged, _ = ask("check", run)
            if judged.returncode:
                wrong.append(f"{settings}: check {layout} {world_size}: {judged.stdout}{judged.stderr}")
        for left, right in itertools.combinations(recorded, 2):
            sign, said = verdict_of(recorded[left], recorded[right])
            counts[left, right][sign] = counts[left, right].get(sign, 0) + 1
            if sign == "✗":
                wrong.append(f"{settings}: {left}, {right}: {said}")
        shutil.rmtree(scratch)
        print(f"{settings}: {len(wrong)} wrong so far", flush=True)
    text = table(counts, names)
    pairs = sum(sum(count.values()) for count in counts.values())
    text += f"\n{runs} runs, {pairs} pairs; {len(wrong)} other verdicts or broken laws.\n"
    print(text, *wrong, sep="\n")
    if args.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
