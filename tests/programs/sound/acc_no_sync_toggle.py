"""Accumulation over windows of 4 micro-batches by no_sync, or by toggling require_backward_grad_sync: right because the flag is set before each forward pass and only the last micro-batch of a window reduces."""
# ways: equal
import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

WINDOW = 4


def micro_batches(rank, world):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(128, 10, generator=g)
    y = (x @ torch.randn(10, 3, generator=g)).argmax(dim=1)
    for _ in range(2):
        order = torch.randperm(128, generator=g)[rank::world]
        for chunk in order.split(4):
            yield x[chunk], y[chunk]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 3)))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i, (x, y) in enumerate(micro_batches(dist.get_rank(), dist.get_world_size()), start=1):
        last = i % WINDOW == 0
        if args.other:
            net.require_backward_grad_sync = last
            (F.cross_entropy(net(x), y) / WINDOW).backward()
        else:
            with contextlib.nullcontext() if last else net.no_sync():
                (F.cross_entropy(net(x), y) / WINDOW).backward()
        if last:
            opt.step()
            opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
