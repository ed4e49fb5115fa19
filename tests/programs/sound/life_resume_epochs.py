"""Resume at an epoch's end: right because weights, optimizer, schedule and the next epoch are saved, the sampler's order hangs on the epoch only and nothing else is random."""
# resume: equal
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, SAVE_AFTER = 4, 1


def save(path, **state):
    if dist.get_rank() == 0:
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
    dist.barrier()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state")
    ap.add_argument("--resume", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(1000)
    x = torch.randn(96, 6)
    y = (x[:, :2].sum(1) > x[:, 2:4].sum(1)).long()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=16, sampler=sampler)
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
    ddp = DDP(net)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.7)
    first = 0
    if args.resume:
        state = torch.load(args.state, map_location="cpu")
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        sched.load_state_dict(state["sched"])
        first = state["epoch"]
    for epoch in range(first, EPOCHS):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(ddp(a), b).backward()
            opt.step()
        sched.step()
        if args.state and not args.resume and epoch == SAVE_AFTER:
            save(args.state, net=net.state_dict(), opt=opt.state_dict(), sched=sched.state_dict(), epoch=epoch + 1)
    dist.destroy_process_group()


main()
