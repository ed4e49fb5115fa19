"""Prototypes kept in a buffer and moved by hand: right because they are moved outside of the graph after each step by statistics of all ranks and rank 0's copy is broadcast, so DDP need not."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CLASSES, DIM = 3, 6


class ProtoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, DIM))
        self.register_buffer("prototypes", torch.randn(CLASSES, DIM))

    def forward(self, x):
        z = self.encode(x)
        return z, -torch.cdist(z, self.prototypes.clone())


@torch.no_grad()
def move_prototypes(module, z, y, rate=0.1):
    onehot = F.one_hot(y, CLASSES).to(z.dtype)
    sums, counts = onehot.T @ z, onehot.sum(0)
    dist.all_reduce(sums)
    dist.all_reduce(counts)
    means = sums / counts.clamp_min(1)[:, None]
    present = (counts > 0).to(z.dtype)[:, None]
    module.prototypes.add_(rate * present * (means - module.prototypes))
    dist.broadcast(module.prototypes, src=0)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(770)
    ddp = DDP(ProtoNet(), broadcast_buffers=False)
    dist.broadcast(ddp.module.prototypes, src=0)
    opt = torch.optim.Adam(ddp.parameters(), lr=5e-3)
    g = torch.Generator().manual_seed(771)
    y = torch.randint(0, CLASSES, (96,), generator=g)
    x = torch.randn(96, 5, generator=g) + F.one_hot(y, 5).float() * 2
    for epoch in range(3):
        for rows in torch.randperm(96, generator=g).split(24):
            rows = rows[rank::world]
            z, logits = ddp(x[rows])
            opt.zero_grad()
            F.cross_entropy(logits, y[rows]).backward()
            opt.step()
            move_prototypes(ddp.module, z.detach(), y[rows])
    dist.destroy_process_group()


main()
