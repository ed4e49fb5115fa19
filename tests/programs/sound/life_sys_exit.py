"""A run that ends by sys.exit(0) and leaves the process group to the interpreter: right because main returns its code after the last update on all ranks and nothing is pending."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parity_of_signs(n=96, width=4):
    g = torch.Generator().manual_seed(1150)
    x = torch.randn(n, width, generator=g)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1151)
    ds = parity_of_signs()
    sampler = DistributedSampler(ds, seed=6)
    loader = DataLoader(ds, batch_size=12, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    last = None
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            last = loss.item()
    return 0 if last == last else 1  # not a number is a failure


if __name__ == "__main__":
    sys.exit(main())
