"""Nesterov SGD by its plain loop or (--other) by the foreach kernels: right because both do the same element-wise updates in the same order."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DistributedSampler


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--other", action="store_true", help="use foreach")
    return p.parse_args()


def main():
    args = parse()
    dist.init_process_group("gloo")
    torch.manual_seed(290)
    x = torch.rand(100, 6)
    y = (x.sum(1) > 3).long() + (x[:, 0] > 0.7).long()
    net = DDP(nn.Sequential(nn.Linear(6, 18), nn.Tanh(), nn.Linear(18, 18), nn.Tanh(), nn.Linear(18, 3)))
    opt = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3, foreach=args.other
    )
    sampler = DistributedSampler(range(100), seed=11)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for rows in BatchSampler(sampler, batch_size=10, drop_last=False):
            opt.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            opt.step()
    dist.destroy_process_group()


main()
