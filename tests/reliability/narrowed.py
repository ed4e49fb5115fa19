#!/usr/bin/env python3
"""Traces that are cut, relabelled and sealed again, and scenarios that are narrowed: narrowed.py [CASES] [SEED]

The scenarios of the gate run once. Each case changes what one of them left, seals it again, and lets `lockstep judge`
judge it; or narrows what a small scenario records, and runs it. A verdict is wrongly green if its exit code is 0 and it
does not say what was not compared. Exit code 0: none is.
"""

import ctypes.util
import hashlib
import json
import multiprocessing.pool
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from training import LOCKSTEP, ROOT, scenario

CHANNELS = ("samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer", "weight", "buffer", "ema",
            "metric", "ledger", "collective")
#: What ranks hold the same.
REPLICATED = ("gradient", "optimizer", "weight", "buffer", "ema", "metric", "ledger", "collective")
PARTS = ("norm", "max", "sketch", "elements", "rows", "integers", "bits", "text")

_xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def sealed(line):
    """The bytes of a line with its check (harness/trace/format.md)."""
    open_line = json.dumps({key: value for key, value in line.items() if key != "check"}, separators=(",", ":"))[:-1]
    body = open_line.encode()
    return body + b',"check":"%016x"}\n' % _xxhash.XXH3_64bits(body, len(body))


def write_sealed(file, lines):
    """Lines without the closing one; the file may be a link to the trace that is kept."""
    text = b"".join(map(sealed, lines))
    end = {"end": True, "lines": len(lines), "sha256": hashlib.sha256(text).hexdigest()}
    file.unlink()
    file.write_bytes(text + sealed(end))


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()][:-1]


def computed(file):
    """What a trace holds besides its first line."""
    return [{key: value for key, value in line.items() if key != "check"} for line in lines_of(file)[1:]]


class Recorded:
    """A scenario's runs, each once recorded."""

    def __init__(self, file, name, folder):
        self.file, self.name, self.folder = file, name, folder
        checks = json.loads(subprocess.run([str(LOCKSTEP), "judge", str(file), "--traces", str(folder), "--json", "-"],
                                           capture_output=True, text=True).stdout)["checks"]
        expected = {variant for check in checks if check["expected_failure"] for variant in check["variants"]}
        judged = {variant for check in checks for variant in check["variants"]}
        #: Variants that nothing is expected to fail in, with the folders of their repeats.
        self.variants = {variant.name: sorted(path for path in variant.iterdir() if (path / "rank0.jsonl").exists())
                         for variant in sorted((folder / name).iterdir()) if variant.name in judged - expected}


def cut(draw, case, folder):
    """Takes steps or records out of some files of one variant. Says what; nothing where there is none of it."""
    variant = draw.choice(sorted(case.variants))
    repeats = [folder / case.name / variant / repeat.name for repeat in case.variants[variant]]
    files = [file for repeat in (repeats if draw.random() < 0.5 else repeats[:1])
             for file in sorted(repeat.glob("rank*.jsonl"))]
    files = files if draw.random() < 0.5 else [draw.choice(files)]
    steps = [line["step"] for line in lines_of(files[0])[1:]]
    at = None if draw.random() < 0.3 else draw.choice(steps)
    kind = draw.choice(("step", "channel", "channel", "record", "record", "part"))
    channel, part = draw.choice(CHANNELS), draw.choice(PARTS)
    names = sorted({record["name"] for file in files for line in lines_of(file)[1:] for record in line.get(channel, [])
                    if not record["name"].startswith("seen.")})
    if kind == "step":
        if at is None:
            return None
    elif not names:
        return None
    name, taken = draw.choice(names) if names else "", 0
    for file in files:
        lines = lines_of(file)
        kept = lines[:1]
        for line in lines[1:]:
            there = at is None or line["step"] == at
            if there and kind == "step":
                taken += 1
                continue
            if there and kind == "channel" and channel in line:
                taken += len(line.pop(channel))
            for record in line.get(channel, []) if there and kind == "part" else []:
                taken += record.pop(part, None) is not None
            if there and kind == "record":
                left = [record for record in line.get(channel, []) if record["name"] != name]
                taken += len(line.get(channel, [])) - len(left)
                line.pop(channel, None)
                if left:
                    line[channel] = left
            kept.append(line)
        write_sealed(file, kept)
    what = {"step": "", "channel": channel, "record": f"{channel} {name}", "part": f"{part} of {channel}"}[kind]
    return f"{variant}: {len(files)} files without {kind} {what} at step {at}" if taken else None


def relabel(draw, case, folder):
    """Gives a run the traces of another variant, under its own first lines."""
    first, other = draw.choice(sorted(case.variants)), draw.choice(sorted(case.variants))
    into, source = (folder / case.name / name / "0" for name in (first, other))
    ranks = sorted(file.name for file in into.glob("rank*.jsonl"))
    if first == other or ranks != sorted(file.name for file in source.glob("rank*.jsonl")):
        return None
    if all(computed(into / rank) == computed(source / rank) for rank in ranks):
        return None
    for repeat in case.variants[first]:
        for rank in ranks:
            file = folder / case.name / first / repeat.name / rank
            write_sealed(file, lines_of(file)[:1] + lines_of(source / rank)[1:])
    return f"{first} is {other}"


def copy_rank(draw, case, folder):
    """Gives a rank the trace of rank 0."""
    variant = draw.choice(sorted(case.variants))
    ranks = len(list((case.folder / case.name / variant / "0").glob("rank*.jsonl")))
    if ranks < 2:
        return None
    rank = draw.randrange(1, ranks)
    for repeat in case.variants[variant]:
        here = folder / case.name / variant / repeat.name
        file, first = here / f"rank{rank}.jsonl", here / "rank0.jsonl"
        if computed(file) == computed(first):
            return None
        write_sealed(file, lines_of(file)[:1] + lines_of(first)[1:])
    return f"{variant}: rank {rank} is rank 0"


def narrow_recording(draw, case, folder):
    """The scenario asks for more than what was recorded, or for less."""
    variant = draw.choice(sorted(case.variants))
    kept = draw.sample(CHANNELS, draw.randrange(1, len(CHANNELS)))
    every = draw.choice((1, 2, 3))
    del folder
    return f"{variant}: every {every}, {kept}", ["--set", f"variants.{variant}.train.record.every={every}", "--set",
                                                 f"variants.{variant}.train.record.channels={json.dumps(kept)}"]


def judged(case, draw, change):
    """Exit code of the judgement, and what was changed; nothing where nothing was."""
    with tempfile.TemporaryDirectory(dir=case.folder.parent) as scratch:
        folder = pathlib.Path(scratch)
        shutil.copytree(case.folder / case.name, folder / case.name, copy_function=os.link)
        what, options = change(draw, case, folder), []
        if what is None:
            return None
        if isinstance(what, tuple):
            what, options = what
        ended = subprocess.run([str(LOCKSTEP), "judge", str(case.file), "--traces", str(folder), *options],
                               capture_output=True, text=True)
        return ended.returncode, f"{case.name}: {change.__name__}: {what}", ended.stdout + ended.stderr


def narrowed_run(draw, folder):
    """A small training that records less. Green is right where the verdict says what was not compared."""
    kept = draw.sample(CHANNELS, draw.randrange(1, len(CHANNELS) + 1))
    every = draw.choice((1, 1, 2, 3))
    one_side = {"train": {"record": {"channels": kept}}} if draw.random() < 0.5 else {}
    document = scenario(draw.randrange(1000), repeats=1, variants={"a": {}, "b": one_side})
    document["train"]["record"] = {"every": every}
    if draw.random() < 0.5:
        document["train"]["record"]["channels"] = kept
    both = set(document["train"]["record"].get("channels", CHANNELS)) & set(kept if one_side else CHANNELS)
    document["checks"] = [{"that": "equal"}, {"that": "ranks_agree"}]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        file = pathlib.Path(scratch) / "narrow.json"
        file.write_text(json.dumps(document))
        ended = subprocess.run([str(LOCKSTEP), "run", str(file), "--json", "-"], capture_output=True, text=True)
        said = f"run: every {every}, both record {sorted(both)}"
        if ended.returncode != 0:
            return ended.returncode, said, ended.stderr
        result = json.loads(ended.stdout)
        silent = [check["relation"] for check in result["checks"]
                  if {channel for channel in (REPLICATED if check["relation"] == "ranks_agree" else CHANNELS)
                      if channel not in both} - set(check["not_compared"])]
        if every > 1 and not any("the steps between were not compared" in warning for warning in result["warnings"]):
            silent.append("the steps between")
        return (0, said, f"silent: {silent}") if silent else (4, said, "")


def main():
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        files = sorted((ROOT / "scenarios/gate").glob("*.jsonc"))
        if cases < 100:  # a first look
            files = random.Random(seed).sample(files, 2)
        for file in files:
            subprocess.run([str(LOCKSTEP), "run", str(file), "--out", str(folder / file.stem)], check=True,
                           capture_output=True)
        recorded = [Recorded(file, file.stem, folder / file.stem) for file in files]

        def one(number):
            draw = random.Random(f"{seed} {number}")
            if draw.random() < 0.1:
                return narrowed_run(draw, folder)
            change = draw.choice((cut, cut, cut, cut, relabel, copy_rank, narrow_recording))
            while (result := judged(draw.choice(recorded), draw, change)) is None:
                pass
            return result

        with multiprocessing.pool.ThreadPool() as pool:
            results = pool.map(one, range(cases))
    green = [(number, what, said) for number, (code, what, said) in enumerate(results) if code == 0]
    for number, what, said in green:
        print(f"wrongly green: case {number}: {what}\n{said}")
    codes = {code: sum(1 for result in results if result[0] == code) for code in sorted({one[0] for one in results})}
    print(f"{cases} cases of seed {seed}, exit codes {codes}: {len(green)} wrongly green")
    return bool(green)


if __name__ == "__main__":
    sys.exit(main())
