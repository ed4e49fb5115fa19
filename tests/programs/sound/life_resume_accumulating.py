"""Resume of an accumulating loop with SequentialLR: right because the checkpoint is written between two windows, where no gradient is pending, and the schedule's parts are saved with it."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

UPDATES, WINDOW, MICRO = 12, 3, 5


def micro_batches(update, rank, world, n):
    g = torch.Generator().manual_seed(1070 + update)
    rows = torch.randperm(n, generator=g)[: WINDOW * MICRO * world]
    return rows[rank::world].split(MICRO)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state")
    ap.add_argument("--resume", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1071)
    x = torch.randn(120, 6)
    y = x[:, :4].argmax(1)
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    sched = SequentialLR(
        opt, [LinearLR(opt, 0.2, total_iters=4), CosineAnnealingLR(opt, UPDATES - 4)], milestones=[4]
    )
    begin = 0
    if args.resume:
        saved = torch.load(args.state)
        net.load_state_dict(saved["net"])
        opt.load_state_dict(saved["opt"])
        sched.load_state_dict(saved["sched"])
        begin = saved["update"]
    ddp = DDP(net)
    for update in range(begin, UPDATES):
        for k, rows in enumerate(micro_batches(update, rank, world, len(x))):
            ddp.require_backward_grad_sync = k == WINDOW - 1
            (nn.functional.cross_entropy(ddp(x[rows]), y[rows]) / WINDOW).backward()
        opt.step()
        opt.zero_grad()
        sched.step()
        if args.state and not args.resume and update == 5 and rank == 0:
            parts = dict(net=net.state_dict(), opt=opt.state_dict(), sched=sched.state_dict())
            torch.save(dict(parts, update=update + 1), args.state)
    dist.destroy_process_group()


main()
