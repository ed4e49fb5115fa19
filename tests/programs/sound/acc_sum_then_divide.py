"""Accumulation of summed losses whose gradients are divided once by the counted samples of all ranks: right because DDP averages over the ranks, so the sum is world size times the gradient it leaves."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Accumulator:
    """Counts the samples whose summed losses went backward since the last step."""

    def __init__(self, ddp, optimizer):
        self.ddp, self.optimizer, self.samples = ddp, optimizer, 0

    def add(self, x, y, final):
        self.ddp.require_backward_grad_sync = final
        F.mse_loss(self.ddp(x), y, reduction="sum").backward()
        self.samples += len(x)

    def apply(self):
        total = torch.tensor(float(self.samples))
        dist.all_reduce(total)
        factor = dist.get_world_size() / total.item()
        for p in self.ddp.parameters():
            p.grad.mul_(factor)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.samples = 0


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
g = torch.Generator().manual_seed(4)
x = torch.randn(120, 7, generator=g)
y = x @ torch.randn(7, 2, generator=g) + 0.1 * torch.randn(120, 2, generator=g)
# micro-batches of mixed sizes; the two ranks do not hold the same number of samples
cuts = [[5, 9, 3, 8], [6, 2, 11, 4]][rank % 2]
torch.manual_seed(5)
acc = Accumulator(ddp := DDP(nn.Linear(7, 2)), torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.8))
mine = x[rank::world], y[rank::world]
for step in range(10):
    pick = torch.randperm(60, generator=torch.Generator().manual_seed(1000 * step + rank))
    parts = pick[: sum(cuts)].split(cuts)
    for n, part in enumerate(parts):
        acc.add(mine[0][part], mine[1][part], final=n == len(parts) - 1)
    acc.apply()
dist.destroy_process_group()
