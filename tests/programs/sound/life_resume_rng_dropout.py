"""Resume with dropout: right because the random states of all ranks are gathered into the checkpoint and each rank restores its own just before the next step."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS = 3


class Checkpoint:
    def __init__(self, path, **parts):
        self.path, self.parts = path, parts

    def write(self, epoch):
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, torch.get_rng_state())
        if dist.get_rank() == 0:
            saved = {name: part.state_dict() for name, part in self.parts.items()}
            torch.save({"parts": saved, "rng": states, "epoch": epoch}, self.path)
        dist.barrier()

    def read(self):
        saved = torch.load(self.path)
        for name, part in self.parts.items():
            part.load_state_dict(saved["parts"][name])
        torch.set_rng_state(saved["rng"][dist.get_rank()])
        return saved["epoch"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state")
    ap.add_argument("--resume", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1040)
    x = torch.randn(96, 9)
    y = x.view(96, 3, 3).norm(dim=2).argmax(1)
    net = nn.Sequential(nn.Linear(9, 40), nn.ReLU(), nn.Dropout(0.3), nn.Linear(40, 3))
    ddp = DDP(net)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    ckpt = Checkpoint(args.state, net=net, opt=opt)
    torch.manual_seed(1041 + rank)
    for epoch in range(ckpt.read() if args.resume else 0, EPOCHS):
        order = torch.randperm(96, generator=torch.Generator().manual_seed(epoch))
        for rows in order[rank::world].split(12):
            opt.zero_grad()
            F.cross_entropy(ddp(x[rows]), y[rows]).backward()
            opt.step()
        if args.state and not args.resume and epoch == 0:
            ckpt.write(epoch + 1)
    dist.destroy_process_group()


main()
