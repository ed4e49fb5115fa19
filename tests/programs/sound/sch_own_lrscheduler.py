"""A schedule of one's own (warm-up, stable, decay) as an LRScheduler subclass: right because get_lr gives the rate of last_epoch from base_lrs, and it is stepped once after each update."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LRScheduler


class WarmStableDecay(LRScheduler):
    def __init__(self, optimizer, warm, stable, decay, last_epoch=-1):
        self.warm, self.stable, self.decay = warm, stable, decay
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warm:
            f = (t + 1) / self.warm
        elif t < self.warm + self.stable:
            f = 1.0
        else:
            left = self.warm + self.stable + self.decay - t
            f = max(left, 0) / (self.decay + 1)
        return [base * f for base in self.base_lrs]


def grouped(n, parts, seed):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return perm.tensor_split(parts)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(470)
    x = torch.randn(112, 4)
    y = (x[:, :1] > 0).float() * x[:, 1:2]
    net = DDP(nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1)))
    opt = torch.optim.RMSprop(net.parameters(), lr=5e-3)
    sched = WarmStableDecay(opt, warm=3, stable=6, decay=5)
    for epoch in range(2):
        for rows in grouped(112, 7, seed=epoch):
            rows = rows[rank::world]
            opt.zero_grad()
            nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
            opt.step()
            sched.step()
    dist.destroy_process_group()


main()
