"""Uneven inputs under join: right because a rank without batches shadows the others' reductions, and all get the last weights."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(31)
    model = DDP(nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    count = 6 - 2 * rank
    with model.join():
        for _ in range(count):
            x = torch.randn(8, 7, generator=generator)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x[:, :1]).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
