"""Low-rank adapters on frozen linear layers, merged at the end: right because only adapters and head require gradients when DDP is made, and B starts at zero so training starts from the given function."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class LoRALinear(nn.Module):
    def __init__(self, base, r=3, alpha=6.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / base.in_features ** 0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.A), self.B)

    @torch.no_grad()
    def merged(self):
        self.base.weight += self.scale * self.B @ self.A
        return self.base


def adapt(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            adapt(child)
    return module


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(870)
    body = adapt(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 16), nn.Tanh()))
    net = nn.Sequential(body, nn.Linear(16, 2))
    ddp = DDP(net)
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
    x = torch.randn(120, 8)
    y = (x[:, 0] > x[:, 7]).long()
    g = torch.Generator().manual_seed(871)
    for epoch in range(3):
        for rows in torch.randperm(120, generator=g)[rank::world].split(15):
            opt.zero_grad()
            F.cross_entropy(ddp(x[rows]), y[rows]).backward()
            opt.step()
    plain = nn.Sequential(*(m.merged() if isinstance(m, LoRALinear) else m for m in body), net[1])
    if rank == 0:
        print("merged layers:", sum(isinstance(m, nn.Linear) for m in plain))
    dist.destroy_process_group()


main()
