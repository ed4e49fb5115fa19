"""Training in float64 throughout: right because the default dtype is set before anything is made, so data, weights, losses and the reduction are all double."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_default_dtype(torch.float64)


class Physics(nn.Module):
    """A network u(t) that is to satisfy u' = -u with u(0) = 1."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))

    def forward(self, t):
        return 1 + t * self.net(t)


def residual(model, t):
    t = t.clone().requires_grad_(True)
    u = model(t)
    (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return (du + u).square().mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(930)
    model = DDP(Physics())
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    points = torch.rand(128, 1, generator=torch.Generator().manual_seed(931)) * 2
    order = torch.Generator().manual_seed(932)
    for epoch in range(4):
        for rows in torch.randperm(128, generator=order).split(32):
            opt.zero_grad()
            loss = residual(model, points[rows[rank::world]])
            loss.backward()
            opt.step()
    assert loss.dtype is torch.float64 and next(model.parameters()).dtype is torch.float64
    if rank == 0:
        print("residual:", loss.item())
    dist.destroy_process_group()


main()
