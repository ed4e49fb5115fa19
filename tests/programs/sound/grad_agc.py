"""Adaptive gradient clipping (AGC): right because each unit's reduced gradient is limited by the norm of the unit's weights, the last layer is left out as in the paper, and the step follows."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def unit_norm(t):
    if t.ndim <= 1:
        return t.norm()
    return t.flatten(1).norm(dim=1).view(-1, *[1] * (t.ndim - 1))


@torch.no_grad()
def agc_(params, clipping=0.05, eps=1e-3):
    for p in params:
        limit = unit_norm(p).clamp_min(eps) * clipping
        norm = unit_norm(p.grad)
        scale = (limit / norm.clamp_min(1e-6)).clamp(max=1.0)
        p.grad.mul_(scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(12)
    ddp = DDP(Net())
    opt = torch.optim.SGD(ddp.parameters(), lr=0.2, momentum=0.9)
    g = torch.Generator().manual_seed(14)
    labels = torch.arange(96) % 3
    images = torch.randn(96, 1, 8, 8, generator=g) + labels.view(-1, 1, 1, 1) - 1.0
    for epoch in range(3):
        order = torch.randperm(96, generator=g)[rank::world]
        for rows in order.split(12):
            loss = F.cross_entropy(ddp(images[rows]), labels[rows])
            opt.zero_grad()
            loss.backward()
            agc_(ddp.module.body.parameters())
            opt.step()
    dist.destroy_process_group()


main()
