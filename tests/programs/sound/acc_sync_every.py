"""Accumulation that reduces at every micro-batch (or, with --other, only at the last): right because DDP averages what is already averaged to itself, so reducing early costs time and changes nothing but rounding."""
# ways: rounding
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

lazy = "--other" in sys.argv[1:]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

gen = torch.Generator().manual_seed(11)
inputs = torch.randn(96, 6, generator=gen)
targets = torch.sin(inputs.sum(dim=1, keepdim=True))
inputs, targets = inputs[rank::world], targets[rank::world]

torch.manual_seed(3)
model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_fn = nn.MSELoss()


def backward(pos, parts):
    (loss_fn(model(inputs[pos]), targets[pos]) / parts).backward()


order_gen = torch.Generator().manual_seed(100 + rank)
for epoch in range(4):
    windows = torch.randperm(len(inputs), generator=order_gen).split(16)
    for window in windows:
        optimizer.zero_grad()
        *firsts, last = window.split(4)
        for pos in firsts:
            if lazy:
                with model.no_sync():
                    backward(pos, len(firsts) + 1)
            else:
                backward(pos, len(firsts) + 1)
        backward(last, len(firsts) + 1)
        optimizer.step()
