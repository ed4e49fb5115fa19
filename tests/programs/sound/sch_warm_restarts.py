"""CosineAnnealingWarmRestarts stepped with fractional epochs: right because after each update it is told the position epoch + (i + 1) / n at which the next update happens."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts


def run_epoch(epoch, net, opt, sched, batches):
    for i, (x, y) in enumerate(batches):
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        opt.step()
        sched.step(epoch + (i + 1) / len(batches))


def batches_of(data, epoch, size=16):
    x, y = data
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator()
    g.manual_seed(430 * 100 + epoch)
    rows = torch.randperm(len(x), generator=g)
    rows = rows.view(-1, world)[:, rank]
    return [(x[r], y[r]) for r in rows.split(size)]


def main():
    dist.init_process_group("gloo")
    g = torch.Generator().manual_seed(430)
    angle = torch.rand(128, generator=g) * 6.28
    radius = torch.rand(128, generator=g) * 2
    data = torch.stack([radius * angle.cos(), radius * angle.sin()], 1), (radius > 1).long()
    torch.manual_seed(431)
    net = DDP(nn.Sequential(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 2)))
    opt = torch.optim.AdamW(net.parameters(), lr=0.02)
    sched = CosineAnnealingWarmRestarts(opt, T_0=1, T_mult=2, eta_min=1e-3)
    for epoch in range(3):  # restarts after epochs 1 and 3
        run_epoch(epoch, net, opt, sched, batches_of(data, epoch))
    dist.destroy_process_group()


main()
