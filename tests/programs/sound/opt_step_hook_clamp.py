"""Weights kept non-negative by an optimizer post-step hook: right because projecting after each step is projected gradient descent, and the projection is the same on every rank."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Unmix(nn.Module):
    """Rows of x are non-negative mixtures of non-negative parts."""

    def __init__(self, features=12, parts=3):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, parts), nn.Softplus())
        self.parts = nn.Parameter(torch.rand(parts, features))

    def forward(self, x):
        return self.encode(x) @ self.parts


def keep_positive(param):
    def hook(optimizer, args, kwargs):
        with torch.no_grad():
            param.clamp_(min=0.0)
    return hook


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(320)
    x = torch.rand(100, 3, generator=g) @ torch.rand(3, 12, generator=g)
    torch.manual_seed(321)
    ddp = DDP(Unmix())
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    opt.register_step_post_hook(keep_positive(ddp.module.parts))
    for epoch in range(3):
        for rows in torch.randperm(100, generator=g).chunk(5):
            mine = x[rows[rank::world]]
            opt.zero_grad()
            nn.functional.mse_loss(ddp(mine), mine).backward()
            opt.step()
    assert bool((ddp.module.parts >= 0).all())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
