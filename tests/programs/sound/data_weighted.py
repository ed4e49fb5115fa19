"""WeightedRandomSampler for a rare class, seeded alike on all ranks and strided by rank: right because all ranks draw the same indices each epoch and split them between them."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import WeightedRandomSampler


def rare_class_data(n=120):
    g = torch.Generator().manual_seed(590)
    y = (torch.arange(n) % 8 == 0).long()
    x = torch.randn(n, 5, generator=g) + 1.5 * y[:, None]
    return x, y


def balanced_sampler(y, draws, seed):
    weight_of_class = 1.0 / torch.bincount(y).double()
    return WeightedRandomSampler(
        weight_of_class[y], num_samples=draws, replacement=True, generator=torch.Generator().manual_seed(seed)
    )


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = rare_class_data()
    sampler = balanced_sampler(y, draws=80, seed=591)
    torch.manual_seed(592)
    net = DDP(nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2)))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(3):
        draws = torch.tensor(list(sampler))  # the sampler's generator goes on by itself
        for rows in draws[rank::world].split(10):
            opt.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            opt.step()
    dist.destroy_process_group()


main()
