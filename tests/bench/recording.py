"""What recording adds to a training in Python: the step's time, and the start of the program.

recording.py measures: `lockstep record` against the plain command, in turns, the best of each side.
recording.py MODEL STEPS is the training that is measured; it prints the median time of its steps in seconds.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LOCKSTEP = pathlib.Path(os.environ["LOCKSTEP_BUILD_ROOT"]).resolve() / "bin" / "lockstep"
SMOKE = bool(os.environ.get("LOCKSTEP_BENCH_SMOKE"))

#: Model: its steps, the batch of its rank.
MODELS = {"small": (400, 32), "resnet": (12, 32), "transformer": (12, 32), "mlp": (40, 32)}

#: What is written to the trace of a step of SGD with momentum: local and reduced gradients, momentum, weights.
COPIES = 4


def model_of(name):
    import torch
    from torch import nn

    def block(inputs, outputs, stride):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                    nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
                self.skip = (nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
                             if stride > 1 or inputs != outputs else nn.Identity())

            def forward(self, x):
                return torch.relu(self.body(x) + self.skip(x))

        return Block()

    if name == "small":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), (64,)
    if name == "mlp":
        return nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10)), (
            2048,)
    if name == "resnet":  # ResNet-18: He et al., 2015, arXiv:1512.03385
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        layers += [block(a, b, 2 if b > a else 1) for a, b in zip(widths, widths[1:])]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), (3, 64, 64)
    layer = nn.TransformerEncoderLayer(384, 6, 1536, 0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Flatten(),
                         nn.Linear(384 * 32, 10)), (32, 384)


def train(name, steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core digests
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    model, shape = model_of(name)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(MODELS[name][1], *shape), torch.randint(10, (MODELS[name][1],))
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times[len(times) // 4:]), sum(p.numel() for p in model.parameters()))
    dist.destroy_process_group()


def measured(record, name, steps, options=()):
    """Median of a step, parameters, and the time of the whole command, in seconds."""
    command = [sys.executable, __file__, name, str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        if record:
            command = [LOCKSTEP, "record", "--out", f"{folder}/trace", *options, "--", *command]
        begin = time.perf_counter()
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return float(said[0]), int(said[1]), time.perf_counter() - begin


def seconds_to_read(count):
    import torch

    memory = torch.ones(count // 8, dtype=torch.int64)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        memory.sum()
        times.append(time.perf_counter() - begin)
    return min(times)


def compare():
    turns = 1 if SMOKE else 5
    for name, (steps, batch) in list(MODELS.items())[:1 if SMOKE else None]:
        sides = {"plain": (False, ()), "recorded": (True, ()), "every 10": (True, ("--every", "10")),
                 "losses and gradients": (True, ("--channel", "loss", "--channel", "gradient"))}
        if SMOKE:
            del sides["every 10"], sides["losses and gradients"]
        best = {}
        parameters = 0
        for _ in range(turns):
            for side, (record, options) in sides.items():
                step, parameters, _ = measured(record, name, 4 if SMOKE else steps, options)
                best[side] = min(step, best.get(side, step))
        plain = best.pop("plain")
        recorded = 4 * COPIES * parameters
        print(f"{name}: {parameters / 1e6:.2f} M parameters, batch {batch}, a step {plain * 1e3:.3f} ms; "
              f"{recorded / 1e6:.1f} MB recorded, read in {seconds_to_read(recorded) * 1e3:.2f} ms")
        for side, step in best.items():
            print(f"  {side:21s} + {(step - plain) * 1e3:7.3f} ms, {(step / plain - 1) * 100:+.1f} %")
    starts = {record: min(measured(record, "small", 1)[2] for _ in range(1 if SMOKE else 10))
              for record in (False, True)}
    print(f"start and end of a program: {starts[False]:.2f} s, "
          f"recorded + {(starts[True] - starts[False]) * 1e3:.0f} ms")


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else compare()
