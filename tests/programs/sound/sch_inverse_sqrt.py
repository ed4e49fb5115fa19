"""A plain class that writes an inverse square root rate and a rising momentum: right because the rank-independent step number alone decides both, and they are written before the update they are for."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Noam:
    def __init__(self, optimizer, scale, warmup):
        self.optimizer, self.scale, self.warmup = optimizer, scale, warmup
        self.number = 0

    def rate(self, n):
        return self.scale * min(n ** -0.5, n * self.warmup ** -1.5)

    def momentum(self, n):
        return min(0.9, 0.5 + 0.05 * n)

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self):
        self.number += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.number)
            group["momentum"] = self.momentum(self.number)
        self.optimizer.step()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(495)
net = DDP(nn.Sequential(nn.Linear(5, 25), nn.Hardswish(), nn.Linear(25, 3)))
noam = Noam(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5), scale=0.3, warmup=4)
table = torch.randn(120, 5)
label = table.abs()[:, :3].argmax(dim=1)
mine = torch.arange(rank, 120, world)
for sweep in range(3):
    shuffled = mine[torch.randperm(len(mine), generator=torch.Generator().manual_seed(sweep))]
    for rows in shuffled.split(15):
        noam.zero_grad()
        F.cross_entropy(net(table[rows]), label[rows]).backward()
        noam.step()
if rank == 0:
    print("updates:", noam.number)
dist.destroy_process_group()
