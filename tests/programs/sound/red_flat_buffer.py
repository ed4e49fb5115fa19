"""Gradients reduced by DDP or (--other) flattened by hand into one buffer: right because both give the mean over two ranks, whose division by two is exact in binary."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class FlatReducer:
    """Copies all gradients to one buffer, reduces it and copies them back."""

    def __init__(self, params):
        self.params = list(params)
        self.flat = torch.empty(sum(p.numel() for p in self.params))
        self.views = []
        start = 0
        for p in self.params:
            dist.broadcast(p.detach(), src=0)
            self.views.append(self.flat[start:start + p.numel()].view_as(p))
            start += p.numel()

    def __call__(self):
        for p, view in zip(self.params, self.views):
            view.copy_(p.grad)
        dist.all_reduce(self.flat)
        self.flat.div_(dist.get_world_size())
        for p, view in zip(self.params, self.views):
            p.grad.copy_(view)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    other = ap.parse_args().other
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(950)
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 3))
    model, reduce = (net, FlatReducer(net.parameters())) if other else (DDP(net), lambda: None)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(96, 6)
    y = x[:, :3].argmax(1)
    for epoch in range(3):
        for rows in torch.randperm(96, generator=torch.Generator().manual_seed(epoch)).split(24):
            rows = rows[rank::world]
            opt.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            reduce()
            opt.step()
    dist.destroy_process_group()


main()
