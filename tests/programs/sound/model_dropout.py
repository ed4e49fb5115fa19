"""Dropout whose masks differ between ranks: right because the weights are made under one seed and the generator is reseeded with the rank afterwards, for the masks only."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Residual(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.ReLU(), nn.Dropout(p), nn.Linear(32, width))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return x + self.drop(self.inner(x))


def seed_all(base, rank=0):
    torch.manual_seed(base + 1000 * rank)


def main():
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    seed_all(720)
    net = DDP(nn.Sequential(nn.Linear(5, 16), Residual(16, 0.2), Residual(16, 0.2), nn.Linear(16, 3)))
    x = torch.randn(112, 5)
    y = x[:, :3].argmin(dim=1)
    seed_all(721, rank)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    shuffle = torch.Generator().manual_seed(722)
    net.train()
    for epoch in range(3):
        order = torch.randperm(112, generator=shuffle)
        for step in range(4):
            rows = order[step * 28 + rank:(step + 1) * 28:world]
            loss = F.cross_entropy(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
    net.eval()
    with torch.inference_mode():
        mean = F.cross_entropy(net.module(x), y)
    if rank == 0:
        print("loss without dropout:", mean.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
