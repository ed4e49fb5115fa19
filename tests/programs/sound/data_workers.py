"""A loader without workers or (--other) with two: right because the dataset computes each sample from its index alone and the loader hands batches over in the sampler's order."""
# ways: equal
import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Waves(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        t = torch.linspace(0, 2 * math.pi, 12)
        label = i % 3
        return torch.sin((label + 1) * t + 0.37 * i), label


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    workers = 2 if ap.parse_args().other else 0
    dist.init_process_group("gloo")
    torch.manual_seed(620)
    ds = Waves()
    sampler = DistributedSampler(ds, seed=62)
    loader = DataLoader(
        ds,
        batch_size=12,
        sampler=sampler,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    net = DDP(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3)))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
