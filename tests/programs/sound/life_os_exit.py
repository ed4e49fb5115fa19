"""A run that ends by os._exit(0) after it has left its group and flushed output: right because all updates and collectives are done by then, so only the interpreter's shutdown is passed over."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def log(message):
    if dist.get_rank() == 0:
        print(message, flush=True)


def train():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1140)
    model = DDP(nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    grid = torch.rand(128, 3)
    inside = (grid.sub(0.5).norm(dim=1, keepdim=True) < 0.45).float()
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(2):
        order = torch.randperm(128, generator=torch.Generator().manual_seed(epoch))
        for i, rows in enumerate(order.split(32)):
            rows = rows[rank::world]
            loss = criterion(model(grid[rows]), inside[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log(f"epoch {epoch} step {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    dist.destroy_process_group()
    os._exit(0)
