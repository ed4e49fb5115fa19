"""An ordinary DistributedDataParallel training that writes down a digest of everything it computes.

Nothing here may be taken from the C++ worker: this is what the worker is compared with.
"""

import bisect
import contextlib
import fnmatch
import itertools
import json
import math

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from digest import record


class MLP(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        widths = [inputs, *hidden, classes]
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths), start=1):
            setattr(self, f"fc{i}", nn.Linear(fan_in, fan_out))

    def forward(self, x):
        *hidden, last = self.children()
        x = x.flatten(1)
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


class LeNet(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * (height // 4) * (width // 4), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.flatten(1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def make_model(spec, shape, classes):
    match spec["kind"]:
        case "mlp":
            return MLP(math.prod(shape), spec["hidden"], classes)
        case "lenet":
            return LeNet(shape, classes)
        case kind:
            raise ValueError(f"unknown model {kind!r}")


def make_data(spec, files):
    """Images, labels and the number of classes."""
    match spec["kind"]:
        case "digits":
            table = np.loadtxt(files["data"], delimiter=",", dtype=np.int64, max_rows=spec["size"])
            if len(table) < spec["size"]:
                raise ValueError(f"{files['data']} has {len(table)} samples, not {spec['size']}")
            x = (table[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
            return torch.from_numpy(x), torch.from_numpy(table[:, 64].copy()), 10
        case "synthetic":
            size, shape, classes = spec["size"], spec["shape"], spec["classes"]
            elements = math.prod(shape)
            hashes = sample_hashes(spec["seed"], size, elements + 1)
            x = (hashes[:, :elements] >> np.uint64(56)).astype(np.float32) / np.float32(256)
            y = (hashes[:, elements] % np.uint64(classes)).astype(np.int64)
            return torch.from_numpy(x.reshape(size, *shape)), torch.from_numpy(y), classes
        case kind:
            raise ValueError(f"unknown data {kind!r}")


def sample_hashes(seed, samples, count):
    """splitmix64(seed * A + i * B + e) for sample i and element e; uint64 arrays wrap around."""
    i = np.arange(samples, dtype=np.uint64)[:, None]
    e = np.arange(count, dtype=np.uint64)[None, :]
    z = i * np.uint64(0xBF58476D1CE4E5B9) + e + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    z += np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class ContiguousSampler(DistributedSampler):
    """The epoch's order and padding of DistributedSampler, but each rank takes one block of it."""

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        order = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(order[self.rank * self.num_samples : (self.rank + 1) * self.num_samples])


def make_loader(spec, dataset, batch_size):
    if spec["kind"] == "none":
        return DataLoader(dataset, batch_size=batch_size, shuffle=spec["shuffle"])
    kind = {"distributed": DistributedSampler, "contiguous": ContiguousSampler}[spec["kind"]]
    sampler = kind(dataset, shuffle=spec["shuffle"], seed=spec["seed"], drop_last=spec["drop_last"])
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)


def endless_batches(loader, set_epoch):
    if len(loader) == 0:
        raise ValueError("an epoch has no samples")
    for epoch in itertools.count():
        if set_epoch:
            loader.sampler.set_epoch(epoch)
        for i, batch in enumerate(loader, start=1):
            yield *batch, i == len(loader)


def scheduler_steps(every, world_size, epochs):
    """How often the scheduler steps after an update in which so many epochs ended."""
    return {"update": 1, "epoch": epochs, "rank": world_size}[every]


def make_ddp(spec, model):
    ddp = DistributedDataParallel(
        model,
        bucket_cap_mb=spec.get("bucket_mb"),
        find_unused_parameters=spec["find_unused_parameters"],
        gradient_as_bucket_view=spec["gradient_as_bucket_view"],
        broadcast_buffers=spec["broadcast_buffers"],
    )
    if not spec["average"]:
        ddp.register_comm_hook(None, sum_hook)
    return ddp


def sum_hook(_, bucket):
    future = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.SUM, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def batch_sizes(spec, world_size):
    """Samples in an update over all ranks, and in a micro-batch of one rank."""
    total = spec["global"] if "global" in spec else spec["per_rank"] * world_size
    parts = world_size * spec["accumulation"]
    if total % parts:
        raise ValueError(f"a global batch of {total} does not divide into {parts} micro-batches")
    return total, total // parts


def learning_rate(lr, rule, global_batch):
    match rule["kind"]:
        case "none":
            return lr
        case "linear":
            return lr * (global_batch / rule["base_batch"])
        case "sqrt":
            return lr * math.sqrt(global_batch / rule["base_batch"])
        case kind:
            raise ValueError(f"unknown learning rate rule {kind!r}")


def make_scheduler(spec, optimizer):
    schedules = torch.optim.lr_scheduler
    match spec["kind"]:
        case "constant":
            return None
        case "step":
            return schedules.StepLR(optimizer, step_size=spec["every"], gamma=spec["gamma"])
        case "multistep":
            return schedules.MultiStepLR(optimizer, milestones=spec["milestones"], gamma=spec["gamma"])
        case "warmup_multistep":
            return WarmupMultiStepLR(optimizer, spec["milestones"], spec["gamma"], spec["factor"], spec["warmup"])
        case "cosine":
            return schedules.CosineAnnealingLR(optimizer, T_max=spec["period"], eta_min=spec["least"])
        case "linear_warmup":
            return schedules.LinearLR(optimizer, start_factor=spec["factor"], total_iters=spec["warmup"])
        case "inverse_sqrt":
            return schedules.LambdaLR(optimizer, lambda step: inverse_sqrt(step, spec["warmup"]))
        case "plateau":
            return schedules.ReduceLROnPlateau(
                optimizer,
                factor=spec["factor"],
                patience=spec["patience"],
                threshold=spec["threshold"],
                cooldown=spec["cooldown"],
                min_lr=spec["least"],
            )
        case kind:
            raise ValueError(f"unknown schedule {kind!r}")


class WarmupMultiStepLR(torch.optim.lr_scheduler.LRScheduler):
    """Multistep decay with a linear warm-up, as in maskrcnn-benchmark and STMixer."""

    def __init__(self, optimizer, milestones, gamma, factor, warmup):
        self.milestones, self.gamma, self.factor, self.warmup = sorted(milestones), gamma, factor, warmup
        super().__init__(optimizer)

    def get_lr(self):
        warmup = 1
        if self.last_epoch < self.warmup:
            alpha = self.last_epoch / self.warmup
            warmup = self.factor * (1 - alpha) + alpha
        passed = bisect.bisect_right(self.milestones, self.last_epoch)
        return [lr * warmup * self.gamma**passed for lr in self.base_lrs]


def inverse_sqrt(step, warmup):
    """transformers' get_inverse_sqrt_schedule with its default time scale."""
    if step < warmup:
        return step / warmup
    return 1.0 / math.sqrt(step / warmup)


class Lamb(torch.optim.Optimizer):
    """LAMB (You et al. 2020, algorithm 2) with bias correction."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                step = state["step"].item()
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                mean = state["exp_avg"] / (1 - beta1**step)
                square = state["exp_avg_sq"] / (1 - beta2**step)
                direction = mean / square.sqrt().add_(group["eps"])
                if group["weight_decay"] != 0:
                    direction = direction.add(p, alpha=group["weight_decay"])
                weight_norm = torch.linalg.vector_norm(p).item()
                direction_norm = torch.linalg.vector_norm(direction).item()
                trust = weight_norm / direction_norm if weight_norm > 0 and direction_norm > 0 else 1
                p.add_(direction, alpha=-group["lr"] * trust)


def make_optimizer(spec, named_parameters, scale):
    """`scale`: what the learning rate rule makes of a learning rate."""
    options = {key: value for key, value in spec.items() if key not in ("kind", "groups")}
    options["lr"] = scale(options["lr"])
    groups = [{"params": []}]
    for group in spec["groups"]:
        own = {key: value for key, value in group.items() if key != "parameters"}
        if "lr" in own:
            own["lr"] = scale(own["lr"])
        groups.append({"params": [], **own})
    for name, parameter in named_parameters:
        matches = [i for i, g in enumerate(spec["groups"], start=1) if fnmatch.fnmatchcase(name, g["parameters"])]
        groups[matches[0] if matches else 0]["params"].append(parameter)
    if not groups[0]["params"]:
        raise ValueError("the twin needs a parameter in the default group")
    kinds = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
        "lamb": Lamb,
    }
    if spec["kind"] in ("adam", "adamw", "rmsprop", "sgd"):
        options["foreach"] = FOREACH
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    return kinds[spec["kind"]](groups, **options)


# None: PyTorch's own choice, which is the single-tensor path on CPU. True: its foreach path.
FOREACH = None


def train(spec, files, out):
    """Runs one case on this rank and writes a line for each step to the file `out`."""
    if spec.get("faults"):
        raise ValueError("the twin plants no faults")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(spec["determinism"]["threads"])
    torch.use_deterministic_algorithms(spec["determinism"]["algorithms"] == "deterministic")
    torch.manual_seed(spec["seed"]["base"] + (rank if spec["seed"]["policy"] == "add_rank" else 0))

    x, y, classes = make_data(spec["data"], files)
    dataset = TensorDataset(x, y, torch.arange(len(y)))
    accumulation = spec["batch"]["accumulation"]
    global_batch, micro_batch = batch_sizes(spec["batch"], world_size)
    loader = make_loader(spec["sampler"], dataset, micro_batch)
    batches = endless_batches(loader, spec["sampler"].get("set_epoch", False))

    model = make_model(spec["model"], x.shape[1:], classes)
    ddp = make_ddp(spec["ddp"], model)
    optimizer = make_optimizer(
        spec["optimizer"],
        model.named_parameters(),
        lambda lr: learning_rate(lr, spec["learning_rate_rule"], global_batch),
    )
    scheduler = make_scheduler(spec["schedule"], optimizer)

    # Runs when a parameter has its gradient, before DDP copies it into a bucket.
    local_gradients = {}
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda parameter, name=name: local_gradients.update({name: parameter.grad.clone()})
        )

    write_line(out, -1, [record("weight", name, p) for name, p in model.named_parameters()])
    for step in range(spec["steps"]):
        records = []
        ids, losses = [], []
        epochs = 0
        optimizer.zero_grad()
        for micro in range(accumulation):
            x, y, i, ends_epoch = next(batches)
            epochs += ends_epoch
            with contextlib.nullcontext() if micro == accumulation - 1 else ddp.no_sync():
                loss = F.cross_entropy(ddp(x), y)
                if accumulation > 1:
                    loss = loss / accumulation
                loss.backward()
            suffix = f".{micro}" if accumulation > 1 else ""
            records += [record("input", f"x{suffix}", x), record("input", f"y{suffix}", y)]
            records += [record("loss", f"local{suffix}", loss)]
            ids.append(i)
            losses.append(loss.detach())
        lrs = [group["lr"] for group in optimizer.param_groups]
        reduced = sum(losses)
        dist.all_reduce(reduced)
        reduced /= world_size
        gradients = [record("gradient", name, p.grad) for name, p in model.named_parameters()]
        optimizer.step()
        for _ in range(scheduler_steps(spec["schedule_every"], world_size, epochs) if scheduler else 0):
            if spec["schedule"]["kind"] == "plateau":
                scheduler.step(reduced)
            else:
                scheduler.step()

        records += [record("loss", "reduced", reduced)]
        records += [record("samples", "ids", torch.cat(ids))]
        records += [record("rng", "cpu", torch.get_rng_state())]
        records += [record("gradient.local", name, local_gradients[name]) for name, _ in model.named_parameters()]
        records += gradients
        for name, p in model.named_parameters():
            for key, value in optimizer.state[p].items():
                records += [record("optimizer", f"{name}.{key}", value)] if value is not None else []
        records += [record("weight", name, p) for name, p in model.named_parameters()]
        records += [record("buffer", name, b) for name, b in model.named_buffers()]
        for i, lr in enumerate(lrs):
            records += [record("ledger", f"lr.{i}" if i else "lr", torch.tensor(lr, dtype=torch.float64))]
        write_line(out, step, records)


CHANNELS = ["samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer", "weight", "buffer", "ledger"]


def write_line(out, step, records):
    ordered = sorted(records, key=lambda record: CHANNELS.index(record[0]))
    out.write(json.dumps({"step": step, "records": ordered}) + "\n")
