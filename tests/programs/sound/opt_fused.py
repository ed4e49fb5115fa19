"""AdamW by its plain loop or (--other) by its fused CPU kernel: right because the fused kernel computes the same update, only rounded in another order."""
# ways: rounding
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

fused = "--other" in sys.argv
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(300)


def shard(*tensors):
    return [t.tensor_split(world)[rank] for t in tensors]


x = torch.randn(128, 8)
y = torch.tanh(x @ torch.randn(8, 3))
x, y = shard(x, y)
net = DDP(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 3)))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05, fused=fused)
order = torch.Generator().manual_seed(301)
for epoch in range(3):
    for rows in torch.randperm(len(x), generator=order).split(16):
        opt.zero_grad()
        nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
        opt.step()
dist.destroy_process_group()
