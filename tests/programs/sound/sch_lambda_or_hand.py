"""A rate by LambdaLR or (--other) written into the param groups by hand: right because both set the base rate times the same factor before the same update."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WARM, TOTAL = 4, 15


def factor(step):
    if step < WARM:
        return (step + 1) / WARM
    return max(0.0, (TOTAL - step) / (TOTAL - WARM))


class ByHand:
    def __init__(self, opt):
        self.opt, self.base, self.t = opt, [g["lr"] for g in opt.param_groups], 0
        self.write()

    def write(self):
        for g, base in zip(self.opt.param_groups, self.base):
            g["lr"] = base * factor(self.t)

    def step(self):
        self.t += 1
        self.write()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    other = ap.parse_args().other
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(450)
    net = DDP(nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 2)))
    body, head = net.module[0], net.module[2]
    opt = torch.optim.Adam([{"params": body.parameters(), "lr": 0.005}, {"params": head.parameters(), "lr": 0.02}])
    sched = ByHand(opt) if other else torch.optim.lr_scheduler.LambdaLR(opt, factor)
    x = torch.randn(120, 6)
    y = torch.stack([x[:, 0], x[:, 1] * x[:, 2]], 1)
    g = torch.Generator().manual_seed(451)
    for _ in range(3):
        for rows in torch.randperm(120, generator=g).chunk(5):
            rows = rows[rank::world]
            opt.zero_grad()
            nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
            opt.step()
            sched.step()
    dist.destroy_process_group()


main()
