"""Resume in the midst of an epoch: right because the saved position is an epoch and a batch, the sampler gives that epoch's order again and the batches already used are skipped."""
# resume: equal
import argparse
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, SAVE_AT = 3, 7  # 5 batches an epoch: the save comes after 2 batches of the second


def positions(loader, epoch, batch):
    while epoch < EPOCHS:
        loader.sampler.set_epoch(epoch)
        for number, data in islice(enumerate(loader), batch, None):
            yield epoch, number, data
        epoch, batch = epoch + 1, 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state")
    ap.add_argument("--resume", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(1010)
    x = torch.randn(80, 5)
    ds = TensorDataset(x, x.sort(dim=1).values[:, 2:3])
    loader = DataLoader(ds, batch_size=8, sampler=DistributedSampler(ds, seed=101))
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    ddp = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    total = EPOCHS * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=total)
    parts = {"net": net, "opt": opt, "sched": sched}
    where = (0, 0)
    if args.resume:
        saved = torch.load(args.state, map_location="cpu")
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        where = saved["next"]
    for epoch, number, (a, b) in positions(loader, *where):
        opt.zero_grad()
        nn.functional.mse_loss(ddp(a), b).backward()
        opt.step()
        done = epoch * len(loader) + number + 1
        if done < total:
            sched.step()
        if args.state and not args.resume and done == SAVE_AT and dist.get_rank() == 0:
            saved = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**saved, "next": (epoch, number + 1)}, args.state)
    dist.barrier()
    dist.destroy_process_group()


main()
