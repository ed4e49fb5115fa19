"""Lookahead around Adam: right because the slow weights start at the first weights, move half-way to the fast ones every 4 steps and are then copied back, the same on every rank, and training ends on such a step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Lookahead:
    def __init__(self, optimizer, k=4, alpha=0.5):
        self.optimizer, self.k, self.alpha, self.count = optimizer, k, alpha, 0
        self.slow = [[p.detach().clone() for p in grp["params"]] for grp in optimizer.param_groups]

    def zero_grad(self):
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        self.count += 1
        if self.count % self.k:
            return
        for group, slows in zip(self.optimizer.param_groups, self.slow):
            for fast, slow in zip(group["params"], slows):
                slow.lerp_(fast, self.alpha)
                fast.copy_(slow)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(230)
net = nn.Sequential(nn.Linear(3, 20), nn.SiLU(), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 1))
net = DDP(net)  # broadcasts rank 0's weights, so the slow copy is taken afterwards
opt = Lookahead(torch.optim.Adam(net.parameters(), lr=1e-2))

gen = torch.Generator().manual_seed(231)
pos = torch.rand(128, 3, generator=gen) * 2 - 1
height = torch.cos(3 * pos[:, :1]) * pos[:, 1:2] + pos[:, 2:]
for epoch in range(4):
    idx = torch.randperm(128, generator=gen)
    for part in idx.chunk(4):
        part = part[rank::world]
        opt.zero_grad()
        nn.functional.mse_loss(net(pos[part]), height[part]).backward()
        opt.step()
assert opt.count == 16
dist.destroy_process_group()
