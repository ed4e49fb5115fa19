"""Accumulation with a shorter last window and a smaller last batch: right because every loss is a sum that is divided by the number of samples its own window holds."""
import os
from itertools import islice

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def windows(loader, size):
    it = iter(loader)
    while batches := list(islice(it, size)):
        yield batches


def run():
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    x = torch.randn(108, 8, generator=g)
    y = (x[:, 0] * x[:, 1] > 0).long()
    dataset = TensorDataset(x, y)
    sampler = DistributedSampler(dataset, seed=9)  # 54 samples a rank: 6 batches of 8 and one of 6
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for batches in windows(loader, 3):  # windows of 3, 3 and 1 batches
            count = sum(len(labels) for _, labels in batches)
            optimizer.zero_grad()
            for n, (features, labels) in enumerate(batches, start=1):
                model.require_backward_grad_sync = n == len(batches)
                loss = F.cross_entropy(model(features), labels, reduction="sum") / count
                loss.backward()
            optimizer.step()
    dist.destroy_process_group()


run()
