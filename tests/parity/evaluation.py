"""Validation loops of the field."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

NO_LABEL = -100


def evaluate(model, ddp, dataset, spec):
    """Loss, accuracy, and how many targets were counted (or None); `dataset` holds the held-out samples."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    sampler = None
    if spec["shares"] != "all":
        sampler = DistributedSampler(dataset, shuffle=False, drop_last=spec["shares"] == "leftovers")
    loader = DataLoader(dataset, batch_size=spec["batch"], sampler=sampler)
    mine = len(sampler) if sampler else len(dataset)
    if spec["shares"] == "trimmed":
        mine = len(range(rank, len(dataset), world_size))
    model.eval()
    with torch.no_grad():
        loss, correct, targets = run(ddp, loader, mine)
        if spec["average"] == "ranks":
            means = torch.tensor([loss / targets, correct / targets])
            reduce(means, spec)
            if sampler and spec["reduce"] != "none":
                means /= world_size
            model.train()
            return means[0].item(), means[1].item(), None
        sums = torch.tensor([loss, correct, targets], dtype=torch.float64)
        if sampler:
            reduce(sums, spec)
        loss, correct, targets = sums.tolist()
        if sampler and len(sampler) * world_size < len(dataset):  # as imagenet/main.py does
            rest = Subset(dataset, range(len(sampler) * world_size, len(dataset)))
            more = run(ddp, DataLoader(rest, batch_size=spec["batch"]), len(rest))
            loss, correct, targets = loss + more[0], correct + more[1], targets + more[2]
    model.train()
    return loss / targets, correct / targets, int(targets)


def reduce(tensor, spec):
    if spec["shares"] == "all" or spec["reduce"] == "none":
        return
    if spec["reduce"] == "root":
        dist.reduce(tensor, 0)
    else:
        dist.all_reduce(tensor)


def run(ddp, loader, counted):
    """Sums over the first `counted` samples of the loader."""
    loss, correct, targets, seen = 0.0, 0.0, 0.0, 0
    first = next(ddp.parameters())
    for x, y, _ in loader:
        x, y = x.to(first.device), y.to(first.device)
        logits = ddp(x.to(first.dtype) if x.is_floating_point() else x)
        kept = min(len(x), counted - seen)
        seen += len(x)
        if kept <= 0:
            continue
        logits, y = logits[:kept], y[:kept]
        count = (y != NO_LABEL).sum().item()
        if count == 0:
            continue
        loss += F.cross_entropy(logits.flatten(0, -2), y.flatten()).item() * count
        correct += (logits.argmax(-1) == y).sum().item()
        targets += count
    return loss, correct, targets
