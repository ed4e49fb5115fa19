"""Resume with ReduceLROnPlateau and the best weights so far: right because schedule, best loss and best weights are saved too, so the run ends on the same best weights."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def val_loss(net, x, y, rank, world):
    net.eval()
    with torch.no_grad():
        total = F.cross_entropy(net(x[rank::world]), y[rank::world], reduction="sum")
        dist.all_reduce(total)
    net.train()
    return total.item() / len(y)


copy_of = lambda net: {name: value.clone() for name, value in net.state_dict().items()}


def main(args):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1060)
    x = torch.randn(96, 6)
    y = ((x[:, 0] + 0.7 * torch.randn(96)) > 0).long()
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    ddp = DDP(net)
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    parts = {"net": net, "opt": opt, "plateau": plateau}
    run = {"epoch": 0, "best": float("inf"), "weights": copy_of(net)}
    if args.resume:
        saved = torch.load(args.state)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        run = saved["run"]
    while run["epoch"] < 8:
        g = torch.Generator().manual_seed(run["epoch"])
        for rows in torch.randperm(64, generator=g)[rank::world].split(16):
            opt.zero_grad()
            F.cross_entropy(ddp(x[rows]), y[rows]).backward()
            opt.step()
        loss = val_loss(net, x[64:], y[64:], rank, world)
        plateau.step(loss)
        if loss < run["best"]:
            run.update(best=loss, weights=copy_of(net))
        run["epoch"] += 1
        if args.state and not args.resume and run["epoch"] == 4 and rank == 0:
            torch.save({**{name: part.state_dict() for name, part in parts.items()}, "run": run}, args.state)
    net.load_state_dict(run["weights"])


ap = argparse.ArgumentParser()
ap.add_argument("--state")
ap.add_argument("--resume", action="store_true")
main(ap.parse_args())
