"""Clipping by norm with clip_grad_norm_ or (--other) with get_total_norm and clip_grads_with_norm_: right because both scale DDP's reduced gradients, alike on all ranks, between backward and step."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm


def clip_in_one(params, limit):
    return clip_grad_norm_(params, limit)


def clip_in_two(params, limit):
    params = list(params)
    norm = get_total_norm([p.grad for p in params])
    clip_grads_with_norm_(params, limit, norm)
    return norm


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--other", action="store_true")
clip = clip_in_two if parser.parse_args().other else clip_in_one

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(41)
x = torch.randn(96, 10)
y = (x[:, :1] * 3.0 + x[:, 1:2].abs())
model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

norms = []
for epoch in range(3):
    order = torch.randperm(48, generator=torch.Generator().manual_seed(epoch)) * world + rank
    for rows in order.chunk(4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        norms.append(clip(model.parameters(), 1.0).item())
        optimizer.step()
if rank == 0:
    print("norms before clipping:", [round(n, 3) for n in norms])
dist.destroy_process_group()
