"""Trains a small model in one layout of several, in ways that are not the usual one: forms.py FORM LAYOUT.

`sync_off`, `norm_of_part` and `flipped` are mistakes; the others are sound.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS, BATCH, WIDTH, CLASSES = 3, 8, 12, 5
form, layout = sys.argv[1:]
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")


def model_of(first, *others):
    return nn.Sequential(nn.Linear(first, WIDTH), nn.GELU(), nn.Linear(WIDTH, *others))


def batches(shares=world_size, share=rank):
    torch.manual_seed(2)
    data = TensorDataset(torch.randn(4 * BATCH, WIDTH), torch.randint(CLASSES, (4 * BATCH,)))
    sampler = DistributedSampler(data, shares, share, seed=3)
    return list(DataLoader(data, BATCH // shares, sampler=sampler))[:STEPS]


def shard(model, **options):
    """In DDP, FSDP2 or HSDP."""
    if layout == "ddp":
        return DistributedDataParallel(model)
    if layout == "hsdp":
        options["mesh"] = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("replicate", "shard"))
    for layer in (model[0], model):
        fully_shard(layer, **options)
    return model


def train(model, optimizer, batches, change=lambda: None):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x).float(), y).backward()
        change()
        optimizer.step()


def usual(change=lambda model: None, **options):
    model = model_of(WIDTH, CLASSES)
    wrapped = shard(model, **options)
    train(wrapped, torch.optim.AdamW(model.parameters(), 1e-2), batches(), lambda: change(model))


def scale_by_hand(model):
    for p in model.parameters():
        p.grad.mul_(0.7)


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clip_by_norm_of_part(model):
    parts = [p.grad.to_local() for p in model.parameters()]
    norm = torch.nn.utils.get_total_norm(parts).item()
    for part in parts:
        part.mul_(min(1, 0.1 / norm))


def sync_off():
    model = model_of(WIDTH, CLASSES)
    wrapped = shard(model)
    model.set_requires_gradient_sync(False)
    train(wrapped, torch.optim.AdamW(model.parameters(), 1e-2), batches())


def flip(model):
    """The last rank writes a weight of its own."""
    if rank == world_size - 1:
        with torch.no_grad():
            model[0].weight.to_local()[-1, -1] += 1e-3


def average_outside(model):
    """What FSDP2 leaves out is averaged by hand."""
    if layout != "ddp":
        dist.all_reduce(model[2].bias.grad)
        model[2].bias.grad /= world_size


def ignored():
    model = model_of(WIDTH, CLASSES)
    outside = {} if layout == "ddp" else {"ignored_params": {model[2].bias}}
    wrapped = shard(model, **outside)
    train(wrapped, torch.optim.SGD(model.parameters(), 0.1), batches(), lambda: average_outside(model))


def hook_after_reduction():
    model = model_of(WIDTH, CLASSES)
    wrapped = shard(model)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))
    train(wrapped, torch.optim.SGD(model.parameters(), 0.1), batches())


class Spectral(nn.Module):
    """With complex weights."""

    def __init__(self):
        super().__init__()
        self.waves = nn.Parameter(torch.randn(WIDTH // 2 + 1, dtype=torch.complex64))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.waves, n=WIDTH)


def complex_weights():
    model = nn.Sequential(Spectral(), nn.GELU(), nn.Linear(WIDTH, CLASSES))
    wrapped = shard(model)
    train(wrapped, torch.optim.SGD(model.parameters(), 0.1), batches())


def two_models():
    """The discriminator gets gradients in the generator's pass, too, and clears them before its own."""
    models = generator, discriminator = model_of(4, WIDTH), model_of(WIDTH, 1)
    wrapped = [shard(model) for model in models]
    optimizers = [torch.optim.Adam(model.parameters(), 1e-2) for model in models]
    for x, _ in batches():
        noise = torch.randn(len(x), 4)
        for optimizer, made in ((optimizers[1], torch.cat([x, wrapped[0](noise).detach()])), (optimizers[0], None)):
            optimizer.zero_grad()
            scores = wrapped[1](wrapped[0](noise) if made is None else made)
            told = torch.ones_like(scores) if made is None else (torch.arange(len(scores)) < len(x)).float()[:, None]
            F.binary_cross_entropy_with_logits(scores, told).backward()
            optimizer.step()


def data_parallel_over_tensor_parallel():
    """By DDP, or by hand."""
    mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(model_of(WIDTH, CLASSES), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    wrapped = DistributedDataParallel(model, device_mesh=mesh["dp"]) if layout == "ddp" else model

    def average():
        for p in model.parameters() if layout == "hand" else ():
            gradient = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
            dist.all_reduce(gradient, group=mesh["dp"].get_group())
            gradient /= mesh["dp"].size()

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(wrapped, optimizer, batches(mesh["dp"].size(), mesh["dp"].get_local_rank()), average)


def stages():
    """Each rank trains a part of its own, as the stages of a pipeline do."""
    model = nn.ModuleDict({f"stage{rank}": model_of(WIDTH, CLASSES)})
    train(model[f"stage{rank}"], torch.optim.SGD(model.parameters(), 0.1), batches())


torch.manual_seed(1)
{"stages": stages,
 "plain": usual,
 "clipped": lambda: usual(clip),
 "norm_of_part": lambda: usual(clip_by_norm_of_part),
 "flipped": lambda: usual(flip),
 "sync_off": sync_off,
 "scaled": lambda: usual(scale_by_hand),
 "bf16": lambda: usual(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
 "ignored": ignored,
 "hook": hook_after_reduction,
 "complex": complex_weights,
 "two": two_models,
 "over_tp": data_parallel_over_tensor_parallel}[form]()
dist.destroy_process_group()
