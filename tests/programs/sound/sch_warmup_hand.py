"""Warm-up and cosine decay written into param_group['lr'] before each update: right because the rate of every update is a function of its number and each group keeps its own peak."""
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def rate(step, total, peak, warm=3, floor=0.05):
    if step < warm:
        return peak * (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done)))


def set_rates(opt, step, total):
    for group in opt.param_groups:
        group["lr"] = rate(step, total, group["peak"])


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(460)
    x = torch.randn(96, 8)
    y = x[:, :3].argmax(1)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=12, sampler=sampler)
    net = nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 3))
    ddp = DDP(net)
    opt = torch.optim.SGD(
        [
            {"params": [*net[0].parameters(), *net[3].parameters()], "peak": 0.2},
            {"params": net[1].parameters(), "peak": 0.05},
        ],
        lr=0.1,
        momentum=0.9,
    )
    epochs = 3
    total, step = epochs * len(loader), 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for a, b in loader:
            set_rates(opt, step, total)
            opt.zero_grad()
            nn.functional.cross_entropy(ddp(a), b).backward()
            opt.step()
            step += 1
    dist.destroy_process_group()
