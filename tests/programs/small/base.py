"""Shared by the small programs: data, model, process group, loader."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def options_of(**more):
    """--fixed: the other way, or the mended one; further options with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    for name, value in more.items():
        parser.add_argument("--" + name, type=type(value), default=value)
    return parser.parse_args()


def start(seed=5):
    dist.init_process_group("gloo")
    torch.manual_seed(seed)
    return dist.get_rank(), dist.get_world_size()


class Points(Dataset):
    """Points of width 8 around four centres."""

    def __init__(self, count=96):
        generator = torch.Generator().manual_seed(11)
        self.y = torch.arange(count) % 4
        self.x = 2 * torch.randn(4, 8, generator=generator)[self.y] + torch.randn(count, 8, generator=generator)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def classifier():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batches_of(count, data=None, **options):
    """Of `count` samples a rank, and the sampler."""
    data = data or Points()
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=count, sampler=sampler, **options), sampler


def epochs(count, batches, sampler, begin=0):
    """Index, data and targets of each batch of each epoch."""
    for epoch in range(begin, count):
        sampler.set_epoch(epoch)
        for index, (x, y) in enumerate(batches):
            yield index, x, y


def loss_of(model, x, y, **options):
    return functional.cross_entropy(model(x), y, **options)


__all__ = ["DataLoader", "Dataset", "DistributedDataParallel", "DistributedSampler", "Points", "batches_of",
           "classifier", "dist", "epochs", "functional", "loss_of", "nn", "options_of", "start", "torch"]
