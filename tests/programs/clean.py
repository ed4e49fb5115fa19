"""How the programs are started, and variations that must change nothing."""

import dataclasses
import sys

#: OneCycleLR of 16 steps, of which accelerate takes one for each rank.
ONE_CYCLE = {"kind": "phases", "phases": [{"steps": 3.8, "from": 0.04, "to": 1, "curve": "cosine"},
                                          {"steps": 11.2, "to": 0.000004, "curve": "cosine"}]}

#: What every training of a program is given. 'promises': what its trace cannot tell.
PROGRAMS = {
    "ddp_tutorial": {"world_size": 2,
                     "arguments": ["--epochs", "3", "--batch-size", "16", "--snapshot", "{folder}/s.pt"],
                     "promises": {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 16},
                                  "data": {"samples": 144}, "schedule": {"kind": "constant"}, "steps": 15,
                                  "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}}},
    "single": {"world_size": 1, "arguments": [],
               "promises": {"sampler": {"kind": "none"}, "batch": {"per_rank": 16}, "data": {"samples": 128},
                            "schedule": {"kind": "step", "every": 1, "gamma": 0.5}, "schedule_every": "epoch",
                            "steps": 24, "optimizer": {"kind": "adamw", "lr": 0.001}}},
    "gan": {"world_size": 1, "arguments": [],
            "promises": {"sampler": {"kind": "none"}, "batch": {"per_rank": 16}, "data": {"samples": 128},
                         "schedule": {"kind": "constant"}, "steps": 24,
                         "optimizer": {"kind": "adam", "lr": 0.0002, "betas": [0.5, 0.999]}}},
    "iterable": {"world_size": 2, "arguments": [],
                 "promises": {"schedule": {"kind": "constant"}, "steps": 28,
                              "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True}}},
    "amp_clip": {"world_size": 2, "arguments": ["--updates", "10"],
                 "promises": {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 16, "accumulation": 2},
                              "data": {"samples": 240}, "steps": 10,
                              "schedule": {"kind": "phases", "phases": [{"steps": 4, "from": 0.2, "to": 1}]},
                              "optimizer": {"kind": "adamw", "lr": 0.003, "betas": [0.9, 0.95]}}},
    "imagenet": {"world_size": 2, "arguments": ["{images}", "-j", "1", "--epochs", "2"],
                 "promises": {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 6}, "data": {"samples": 60},
                              "schedule": {"kind": "step", "every": 2}, "schedule_every": "epoch", "steps": 10,
                              "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0001}}},
    "accelerate_cv": {"world_size": 2, "arguments": [
        "--cpu", "--data_dir", "{images}/pets", "--num_epochs", "1", "--gradient_accumulation_steps", "2",
        "--output_dir", "{folder}"],
                      "promises": {"sampler": {"kind": "accelerate"}, "batch": {"per_rank": 8, "accumulation": 2},
                                   "data": {"samples": 64}, "steps": 4, "schedule": ONE_CYCLE, "schedule_every": "rank",
                                   "optimizer": {"kind": "adam", "lr": 0.03}}},
    "hf_trainer": {"world_size": 2, "arguments": ["--max-steps", "6", "--output-dir", "{folder}/out"],
                   "promises": {"sampler": {"kind": "accelerate"}, "batch": {"per_rank": 4, "accumulation": 2},
                                "data": {"samples": 96}, "steps": 6,
                                "schedule": {"kind": "phases", "phases": [{"steps": 4, "from": 0, "to": 1},
                                                                          {"steps": 2, "to": 0}]},
                                "optimizer": {"kind": "adamw", "lr": 0.001, "weight_decay": 0.1}}},
    "lightning_fit": {"world_size": 2, "arguments": ["--devices", "2", "--max-epochs", "2", "--samples", "80"],
                      "promises": {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 10, "accumulation": 2},
                                   "data": {"samples": 80}, "steps": 8, "schedule_every": "epoch",
                                   "schedule": {"kind": "step", "every": 1, "gamma": 0.7},
                                   "optimizer": {"kind": "adamw", "lr": 0.01, "weight_decay": 0.1}}},
}


@dataclasses.dataclass
class Side:
    """How one training is started."""

    launcher: str = "start"
    world_size: int = 0
    arguments: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    options: list = dataclasses.field(default_factory=list)
    before: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Variation:
    """Two trainings that must agree in every record that `lockstep diff` with these options compares."""

    name: str
    program: str
    left: Side
    right: Side
    options: tuple = ()
    cause: str = ""  #: they may differ by rounding, if diff names this

    @property
    def sides(self):
        return self.left, self.right

    def why_not(self, workshop):
        return workshop.agree(self)


@dataclasses.dataclass
class Rounding:
    """Variants of a program's scenario that may differ by rounding alone."""

    name: str
    program: str
    variants: dict

    def why_not(self, workshop):
        return workshop.rounds(self)


def variation(name, program, left=None, options=(), **right):
    return Variation(f"{program}: {name}", program, left or Side(), Side(**right), options)


SPAWN = ["--multiprocessing-distributed", "--world-size", "2", "--dist-url", "tcp://127.0.0.1:{port}"]

VARIATIONS = [
    variation("recorded twice", "ddp_tutorial"),
    variation("recorded twice", "amp_clip"),
    variation("recorded twice", "gan"),
    variation("recorded twice", "iterable"),
    variation("recorded twice", "hf_trainer"),
    variation("recorded twice", "accelerate_cv"),
    variation("by torchrun, another port", "ddp_tutorial", launcher="torchrun"),
    variation("by torchrun", "accelerate_cv", launcher="torchrun"),
    variation("by torchrun", "hf_trainer", launcher="torchrun"),
    variation("mp.spawn starts the ranks", "imagenet", launcher="own", arguments=SPAWN),
    variation("Lightning starts the ranks", "lightning_fit", launcher="own"),
    variation("without a launcher", "single", launcher="own"),
    variation("one loader worker", "single", arguments=["--workers", "1"]),
    variation("no loader worker", "single", arguments=["--workers", "0"]),
    variation("on one core", "ddp_tutorial", before=["taskset", "-c", "0"]),
    variation("nice", "iterable", before=["nice", "-n", "5"]),
    variation("other hashes and variables", "amp_clip", environment={"PYTHONHASHSEED": "7", "UNRELATED": "1"}),
    Variation("ddp_tutorial: every third update", "ddp_tutorial", Side(options=["--every", "3"]),
              Side(options=["--every", "3"])),
    Variation("ddp_tutorial: every other update", "ddp_tutorial", Side(), Side(options=["--every", "2"])),
    # Not of `single`: there the threads' rounding reaches a bias before a batch norm, whose gradient is zero but for
    # it, and Adam makes whole steps of it.
    Variation("ddp_tutorial: two threads", "ddp_tutorial", Side(), Side(environment={"OMP_NUM_THREADS": "2"}),
              cause="fp.thread_count"),
    Variation("ddp_tutorial: weights alone", "ddp_tutorial", Side(),
              Side(options=["--channel", "weight"]), ("--channel", "weight")),
]

ROUNDING = [
    Rounding("ddp_tutorial: one rank against two", "ddp_tutorial", {
        "one": {"world_size": 1, "program": {"arguments": {"--batch-size": 32}},
                "promises": {"batch": {"per_rank": 32}}},
        "two": {"world_size": 2, "program": {"arguments": {"--batch-size": 16}}}}),
]

if __name__ == "__main__":
    sys.exit("a module of tests")
