"""A training of a moment, and the lockstep to run it."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOCKSTEP = pathlib.Path(os.environ.get("LOCKSTEP", ROOT / "build/bin/lockstep")).resolve()


def scenario(seed, **more):
    """Two ranks, four updates. Its bits are those of its seed."""
    return {
        "name": f"seed{seed}", "description": "A training of a moment.", "world_size": 2,
        "train": {
            "model": {"kind": "mlp", "hidden": [16]},
            "data": {"kind": "digits", "path": str(ROOT / "scenarios/data/digits.csv.gz"), "size": 48},
            "batch": {"global": 12}, "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}, "steps": 4,
            "seed": {"base": seed},
        },
        "repeats": 2,
        "checks": [{"that": "repeatable"}, {"that": "ranks_agree"}, {"that": "finishes"}],
        **more,
    }
