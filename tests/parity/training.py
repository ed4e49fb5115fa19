"""An ordinary DistributedDataParallel training that writes down a digest of everything it computes.

Nothing here may be taken from the C++ worker: this is what the worker is compared with.
"""

import bisect
import contextlib
import fnmatch
import json
import math
import os
import random
import struct
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import Subset, TensorDataset

from digest import record
from evaluation import evaluate
from models import make_model
from samplers import endless_batches, make_loader


def make_dataset(spec, files):
    """Samples (input, label, id), the shape of an input and the number of classes."""
    if spec["kind"] in ("idx", "npy", "safetensors", "image_folder"):
        from formats import make_dataset  # torchvision takes its time

        return make_dataset(spec, files)
    x, y, classes = make_data(spec, files)
    return TensorDataset(x, y, torch.arange(len(y))), x.shape[1:], classes


def make_data(spec, files):
    """Inputs, labels and the number of classes."""
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
        case "text":
            return text_data(files["data"], spec["length"], spec["by"])
        case kind:
            raise ValueError(f"unknown data {kind!r}")


NO_LABEL = -100
AUTOCAST = {"none": torch.bfloat16, "bf16": torch.bfloat16, "fp16": torch.float16}


def text_data(file, length, by):
    """Sequences of characters, the characters that follow them, and the number of different characters."""
    with open(file, "rb") as opened:
        text = opened.read()
    ids = {byte: i for i, byte in enumerate(sorted(set(text)))}
    if by == "block":
        parts = [text[at : at + length + 1] for at in range(0, len(text) - length, length)]
    else:
        lines = [line for line in text.splitlines(keepends=True) if len(line) > 1]
        parts = [line[: min(len(line) - 1, length) + 1] for line in lines]
    length = max(len(part) for part in parts) - 1
    x = torch.zeros(len(parts), length, dtype=torch.int64)
    y = torch.full((len(parts), length), NO_LABEL)
    for i, part in enumerate(parts):
        tokens = torch.tensor([ids[byte] for byte in part])
        x[i, : len(part) - 1] = tokens[:-1]
        y[i, : len(part) - 1] = tokens[1:]
    return x, y, len(ids)


def sample_hashes(seed, samples, count):
    """splitmix64(seed * A + i * B + e) for sample i and element e; uint64 arrays wrap around."""
    i = np.arange(samples, dtype=np.uint64)[:, None]
    e = np.arange(count, dtype=np.uint64)[None, :]
    z = i * np.uint64(0xBF58476D1CE4E5B9) + e + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    z += np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def make_ddp(spec, model):
    if not spec["wrap"]:
        return model
    ddp = DistributedDataParallel(
        model,
        bucket_cap_mb=spec.get("bucket_mb"),
        find_unused_parameters=spec["find_unused_parameters"],
        gradient_as_bucket_view=spec["gradient_as_bucket_view"],
        broadcast_buffers=spec["broadcast_buffers"],
    )
    if not spec["average"]:
        ddp.register_comm_hook(None, sum_hook)
    hooks = {
        "fp16": default_hooks.fp16_compress_hook,
        "bf16": default_hooks.bf16_compress_hook,
        "fp64": fp64_compress_hook,
    }
    if spec["compression"] != "none":
        ddp.register_comm_hook(None, hooks[spec["compression"]])
    return ddp


def fp64_compress_hook(_, bucket):
    return default_hooks._compress_hook(torch.float64, dist.group.WORLD, bucket)


def sum_hook(_, bucket):
    future = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.SUM, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def batch_sizes(spec, world_size):
    """Samples in an update over all ranks, and in a micro-batch of one rank."""
    if "per_node" in spec:
        total = spec["per_node"] // spec["ranks_per_node"] * world_size
    else:
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


def rule_warmup(rule, factor, steps):
    """Gradual warm-up, as horovod's LearningRateWarmupCallback multiplies it in."""
    warmup = rule.get("warmup", 0)
    return (1 + (factor - 1) * (steps / warmup)) / factor if steps < warmup else 1


def read_weights(file, keys):
    """A state dict that was saved by safetensors, or by torch.save."""
    with open(file, "rb") as opened:
        is_zip = opened.read(2) == b"PK"
    state = torch.load(file, weights_only=True) if is_zip else safetensors.torch.load_file(file)
    if keys["under"]:
        state = state[keys["under"]]
    return {name.removeprefix(keys["strip"]): tensor for name, tensor in state.items()}


def resume(folder, model, optimizer, scheduler, restore):
    """Takes over the parts `restore` of a checkpoint of the worker's; returns its state.json."""
    state = json.loads((folder / "state.json").read_text())
    model.load_state_dict(safetensors.torch.load_file(folder / "weights.safetensors"))
    if "optimizer" in restore:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        in_groups = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        numbers = {names[id(parameter)]: i for i, parameter in enumerate(in_groups)}
        saved = optimizer.state_dict()
        for name, tensor in safetensors.torch.load_file(folder / "optimizer.safetensors").items():
            parameter, key = name.rsplit(".", 1)
            saved["state"].setdefault(numbers[parameter], {})[key] = tensor
        for group, rate in zip(saved["param_groups"], state["learning_rates"], strict=True):
            group.update({key: value for key, value in state["optimizer"].items() if key in group})
            group["lr"] = struct.unpack(">d", bytes.fromhex(rate["current_bits"]))[0]
        optimizer.load_state_dict(saved)
    if "schedule" in restore:
        scheduler.last_epoch = state["schedule"]["steps"]
    return state


def seed_of_rank(spec, rank, world_size):
    match spec["policy"]:
        case "same":
            return spec["base"]
        case "add_rank":
            return spec["base"] + rank
        case "mt_list":  # STMixer, utils/random_seed.py
            generator = random.Random(spec["base"])
            return [generator.randint(0, 2**32 - 1) for _ in range(world_size)][rank]
        case policy:
            raise ValueError(f"the twin does not follow the policy {policy!r}")


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
        case "warmup_cosine":
            return schedules.LambdaLR(optimizer, lambda step: warmup_cosine(step, **spec))
        case "cosine":
            return schedules.CosineAnnealingLR(optimizer, T_max=spec["period"], eta_min=spec["least"])
        case "linear_warmup":
            return schedules.LinearLR(optimizer, start_factor=spec["factor"], total_iters=spec["warmup"])
        case "phases":
            return schedules.LambdaLR(optimizer, lambda step: share_of_phases(step, spec["phases"]))
        case "chained":
            return schedules.ChainedScheduler([make_scheduler(one, optimizer) for one in spec["of"]])
        case "rates":
            return ListedRates(optimizer, spec["rates"])
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


class ListedRates(torch.optim.lr_scheduler.LRScheduler):
    """Learning rates as a list; the last one stays."""

    def __init__(self, optimizer, rates):
        self.rates = rates
        super().__init__(optimizer)

    def get_lr(self):
        return [self.rates[min(self.last_epoch, len(self.rates) - 1)] for _ in self.base_lrs]


def scheduler_steps(every, world_size, epochs):
    """How often the scheduler steps after an update in which so many epochs ended."""
    return {"update": 1, "epoch": epochs, "rank": world_size}[every]


def warmup_cosine(step, period, warmup, factor, **_):
    """STMixer's cosine, which counts from the start of the warm-up."""
    if step < warmup:
        alpha = step / warmup
        return factor * (1 - alpha) + alpha
    return (1 + math.cos(math.pi * step / period)) / 2


def share_of_phases(step, phases):
    """Share of the rate, phase by phase."""
    begin, share = 0.0, 1.0
    for phase in phases:
        start, end = phase.get("from", share), phase["to"]
        if step < begin + phase["steps"]:
            done = (step - begin) / phase["steps"]
            match phase["curve"]:
                case "cosine":
                    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * done))
                case "polynomial":
                    return end + (start - end) * math.pow(1 - done, phase["power"])
                case "sqrt":
                    return start + (end - start) * math.sqrt(done)
                case "exponential":
                    return start * math.pow(end / start, done)
            return start + (end - start) * done
        begin, share = begin + phase["steps"], end
    return share


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


def make_optimizer(spec, named_parameters, scale, foreach):
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
        "adamax": torch.optim.Adamax,
        "rmsprop": torch.optim.RMSprop,
        "lamb": Lamb,
    }
    if spec["kind"] in ("adam", "adamax", "adamw", "rmsprop", "sgd"):
        options["foreach"] = None if options.get("fused") else foreach
    if "betas" in options:
        options["betas"] = tuple(float(beta) for beta in options["betas"])
    return kinds[spec["kind"]](groups, **options)


def train(spec, files, out, foreach=None):
    """Runs one case on this rank and writes a line for each step to the file `out`.

    `foreach`: the optimizer's path; None is PyTorch's own choice, which on CPU is the single-tensor path.
    """
    if spec.get("faults"):
        raise ValueError("the twin plants no faults")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if spec["device"] == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.backends.cudnn.deterministic = spec["determinism"]["cudnn_deterministic"]
        torch.backends.cudnn.benchmark = spec["determinism"]["cudnn_benchmark"]
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = spec["determinism"]["tf32"]
    torch.set_num_threads(spec["determinism"]["threads"])
    torch.set_flush_denormal(spec["determinism"]["flush_denormal"])
    torch.use_deterministic_algorithms(spec["determinism"]["algorithms"] == "deterministic")
    if spec["seed"]["policy"] != "after_model":
        torch.manual_seed(seed_of_rank(spec["seed"], rank, world_size))

    if spec["data"].get("per_rank"):
        spec["data"]["seed"] += rank
    dataset, shape, classes = make_dataset(spec["data"], files)
    if "evaluation" in spec:
        trained_on = len(dataset) - spec["evaluation"]["samples"]
        held_out, dataset = Subset(dataset, range(trained_on, len(dataset))), Subset(dataset, range(trained_on))
    accumulation = spec["batch"]["accumulation"]
    global_batch, micro_batch = batch_sizes(spec["batch"], world_size)
    model = make_model(spec["model"], shape, classes)
    dtype = getattr(torch, spec["precision"])
    model.to(device, dtype)
    if spec["seed"]["policy"] == "after_model":
        torch.manual_seed(spec["seed"]["base"])
    load = spec["checkpoint"].get("load")
    if load and "file" in load:
        model.load_state_dict(read_weights(files["weights"], load["keys"]))
    ddp = make_ddp(spec["ddp"], model)
    optimizer = make_optimizer(
        spec["optimizer"],
        model.named_parameters(),
        lambda lr: learning_rate(lr, spec["learning_rate_rule"], global_batch),
        foreach,
    )
    scheduler = make_scheduler(spec["schedule"], optimizer)
    factor = learning_rate(1.0, spec["learning_rate_rule"], global_batch)
    schedule_steps = 0
    loader = make_loader(spec["sampler"], dataset, micro_batch, spec["batch"]["drop_last"])
    batches = endless_batches(loader, dataset, spec["sampler"].get("set_epoch", False))
    first_step = 0
    if load and "from" in load:
        run = Path(files["checkpoint"])
        folder = run / (run / "last_checkpoint").read_text().strip()
        state = resume(folder, model, optimizer, scheduler, load["restore"])
        first_step = schedule_steps = state["updates"] if "schedule" in load["restore"] else 0
        generators = safetensors.torch.load_file(folder / f"rank{rank}.safetensors")
        for _ in range(first_step * accumulation if "sampler" in load["restore"] else 0):
            next(batches)
        torch.set_rng_state(generators["rng.now"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(generators["rng.device"])

    dynamic = spec["gradient"].get("dynamic_scale", {})
    scaler = torch.amp.GradScaler(
        device.type,
        init_scale=spec["gradient"].get("loss_scale", 1.0),
        growth_factor=dynamic.get("growth", 2.0),
        backoff_factor=dynamic.get("backoff", 0.5),
        growth_interval=dynamic.get("interval", 2000),
        enabled="loss_scale" in spec["gradient"],
    )
    ema = None
    if "ema" in spec:
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(spec["ema"]["decay"]))

    # Runs when a parameter has its gradient, before DDP copies it into a bucket. Those of the last micro-batch stay.
    local_gradients = {}
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda parameter, name=name: local_gradients.update({name: parameter.grad.clone()})
        )

    write_line(out, first_step - 1, [record("weight", name, p) for name, p in model.named_parameters()])
    for step in range(first_step, spec["steps"]):
        records = []
        ids, losses = [], []
        epochs = 0
        optimizer.zero_grad()
        flush = spec["batch"]["at_epoch_end"] == "update"
        if spec["loss"]["average"] == "world":
            # As Hugging Face's Trainer: the micro-batches are loaded first, because the loss needs all their targets.
            ahead = []
            while len(ahead) < accumulation and not (flush and ahead and ahead[-1][-1]):
                ahead.append(next(batches))
            targets = sum((y != NO_LABEL).sum() for _, y, _, _ in ahead)
            dist.all_reduce(targets)
        ends_epoch = False
        for micro in range(accumulation):
            if ends_epoch and spec["schedule_every"] == "epoch" and spec["schedule"]["kind"] != "plateau":
                # "for epoch: for batch in loader: …; scheduler.step()": the update that these micro-batches are for
                # comes with the next epoch's.
                epochs -= 1
                schedule_steps += 1
                if scheduler:
                    scheduler.step()
            x, y, i, ends_epoch = ahead[micro] if spec["loss"]["average"] == "world" else next(batches)
            x = x.to(dtype) if x.is_floating_point() else x
            epochs += ends_epoch
            suffix = f".{micro}" if accumulation > 1 else ""
            records += [record("input", f"x{suffix}", x), record("input", f"y{suffix}", y)]
            local_gradients.clear()
            last = micro == accumulation - 1 or (flush and ends_epoch)
            syncs = last or not spec["batch"]["no_sync"] or not spec["ddp"]["wrap"]
            with contextlib.nullcontext() if syncs else ddp.no_sync():
                with torch.autocast(device.type, AUTOCAST[spec["autocast"]], enabled=spec["autocast"] != "none"):
                    logits, y = ddp(x.to(device)), y.to(device)
                    if spec["loss"]["average"] == "world":
                        summed = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="sum")
                        loss = summed * (world_size / targets.item())
                    else:
                        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
                        if accumulation > 1:
                            loss = loss / accumulation
                scaler.scale(loss).backward()
            records += [record("loss", f"local{suffix}", loss)]
            ids.append(i)
            losses.append(loss.detach())
            if last:
                break
        scheduled = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= rule_warmup(spec["learning_rate_rule"], factor, schedule_steps)
        lrs = [group["lr"] for group in optimizer.param_groups]
        reduced = sum(losses)
        dist.all_reduce(reduced)
        reduced /= world_size
        with_gradient = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
        gradients = [record("gradient", name, p.grad) for name, p in with_gradient]
        if "loss_scale" in spec["gradient"]:
            scale = scaler.get_scale()
            records += [record("ledger", "loss_scale", torch.tensor(scale, dtype=torch.float64))]
            scaler.unscale_(optimizer)
            gradients += [record("gradient", f"unscaled {name}", p.grad) for name, p in with_gradient]
        if "clip_norm" in spec["gradient"]:
            torch.nn.utils.clip_grad_norm_(ddp.parameters(), spec["gradient"]["clip_norm"])
        if "clip_value" in spec["gradient"]:
            torch.nn.utils.clip_grad_value_(ddp.parameters(), spec["gradient"]["clip_value"])
        if "clip_norm" in spec["gradient"] or "clip_value" in spec["gradient"]:
            gradients += [record("gradient", f"clipped {name}", p.grad) for name, p in with_gradient]
        scaler.step(optimizer)
        if "loss_scale" in spec["gradient"]:
            scaler.update(None if dynamic else float(spec["gradient"]["loss_scale"]))
        for group, lr in zip(optimizer.param_groups, scheduled, strict=True):
            group["lr"] = lr
        if ema is not None:
            ema.update_parameters(model)
        steps = scheduler_steps(spec["schedule_every"], world_size, epochs)
        schedule_steps += steps
        for _ in range(steps if scheduler else 0):
            if spec["schedule"]["kind"] == "plateau":
                scheduler.step(reduced)
            else:
                scheduler.step()

        if "evaluation" in spec and (step + 1) % spec["evaluation"]["every"] == 0:
            loss, accuracy, counted = evaluate(model, ddp, held_out, spec["evaluation"])
            records += [record("metric", "loss", torch.tensor(loss, dtype=torch.float64))]
            records += [record("metric", "accuracy", torch.tensor(accuracy, dtype=torch.float64))]
            records += [record("metric", "counted", torch.tensor(counted))] if counted is not None else []
        records += [record("loss", "reduced", reduced)]
        records += [record("samples", "ids", torch.cat(ids))]
        records += [record("rng", "cpu", torch.get_rng_state())]
        if device.type == "cuda":
            records += [record("rng", "cuda", torch.cuda.get_rng_state())]
        records += [record("gradient.local", name, gradient) for name, gradient in local_gradients.items()]
        records += gradients
        for name, p in model.named_parameters():
            for key, value in optimizer.state[p].items():
                records += [record("optimizer", f"{name}.{key}", value)] if value is not None else []
        records += [record("weight", name, p) for name, p in model.named_parameters()]
        records += [record("buffer", name, b) for name, b in model.named_buffers()]
        if ema is not None:
            records += [record("ema", name, p) for name, p in ema.module.named_parameters()]
        for i, lr in enumerate(lrs):
            records += [record("ledger", f"lr.{i}" if i else "lr", torch.tensor(lr, dtype=torch.float64))]
        write_line(out, step, records)


CHANNELS = ["samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer", "weight", "buffer",
            "ema", "metric", "ledger"]


def write_line(out, step, records):
    ordered = sorted(records, key=lambda record: CHANNELS.index(record[0]))
    out.write(json.dumps({"step": step, "records": ordered}) + "\n")
