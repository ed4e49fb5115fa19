"""EMA by hand with a bias-corrected decay and a swap for evaluation: right because the shadow is moved after each step and the live weights are put back exactly before training goes on."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Shadow:
    def __init__(self, module, decay=0.95):
        self.module, self.decay, self.n = module, decay, 0
        self.values = {k: p.detach().clone() for k, p in module.named_parameters()}

    @torch.no_grad()
    def update(self):
        self.n += 1
        d = min(self.decay, (1 + self.n) / (10 + self.n))
        for k, p in self.module.named_parameters():
            self.values[k].mul_(d).add_(p, alpha=1 - d)

    @contextlib.contextmanager
    def applied(self):
        live = {k: p.detach().clone() for k, p in self.module.named_parameters()}
        with torch.no_grad():
            for k, p in self.module.named_parameters():
                p.copy_(self.values[k])
        try:
            yield self.module
        finally:
            with torch.no_grad():
                for k, p in self.module.named_parameters():
                    p.copy_(live[k])


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(790)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
ddp = DDP(net)
shadow = Shadow(net)
opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(120, 6)
y = (x[:, :3].prod(1, keepdim=True)).tanh()
g = torch.Generator().manual_seed(791)
for epoch in range(3):
    for rows in torch.randperm(100, generator=g).split(20):
        rows = rows[rank::world]
        opt.zero_grad()
        nn.functional.mse_loss(ddp(x[rows]), y[rows]).backward()
        opt.step()
        shadow.update()
    with shadow.applied() as averaged, torch.no_grad():
        held_out = nn.functional.mse_loss(averaged(x[100:]), y[100:])
    if rank == 0:
        print(epoch, held_out.item())
dist.destroy_process_group()
