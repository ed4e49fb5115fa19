"""A warm-up schedule that is no longer stepped once the warm-up is over: right because the last step leaves the full rate in the param groups, where it stays as meant."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WARMUP_STEPS = 5


def pairs(rank, world):
    g = torch.Generator().manual_seed(480)
    x = torch.randn(128, 6, generator=g)
    y = torch.where(x[:, :1] > 0, x[:, 1:2], x[:, 2:3])
    for epoch in range(3):
        for rows in torch.randperm(128, generator=g).split(32):
            yield x[rows[rank::world]], y[rows[rank::world]]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(481)
    net = DDP(nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 1)))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    warmup = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, end_factor=1.0, total_iters=WARMUP_STEPS)
    for step, (x, y) in enumerate(pairs(dist.get_rank(), dist.get_world_size())):
        opt.zero_grad()
        loss = nn.functional.smooth_l1_loss(net(x), y)
        loss.backward()
        opt.step()
        if step < WARMUP_STEPS:
            warmup.step()
    if dist.get_rank() == 0:
        print("rate after warm-up:", opt.param_groups[0]["lr"], "loss:", loss.item())
    dist.destroy_process_group()


main()
