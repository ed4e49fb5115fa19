"""Resume of an optimizer wrapper with slow weights: right because the wrapper's state_dict holds the inner optimizer, the slow weights and the count, and the save falls between two of its synchronisations."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Lookahead:
    def __init__(self, inner, k=3, alpha=0.5):
        self.inner, self.k, self.alpha, self.count = inner, k, alpha, 0
        self.params = [p for g in inner.param_groups for p in g["params"]]
        self.slow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k == 0:
            for p, s in zip(self.params, self.slow):
                p.copy_(s.lerp_(p, self.alpha))

    def state_dict(self):
        return {"inner": self.inner.state_dict(), "slow": self.slow, "count": self.count}

    def load_state_dict(self, state):
        self.inner.load_state_dict(state["inner"])
        self.slow, self.count = state["slow"], state["count"]


def arguments():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state")
    ap.add_argument("--resume", action="store_true")
    return ap.parse_args()


def main(args):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1050)
    net = nn.Sequential(nn.Linear(4, 24), nn.SiLU(), nn.Linear(24, 2))
    ddp = DDP(net)
    opt = Lookahead(torch.optim.RMSprop(net.parameters(), lr=5e-3))
    x = torch.randn(96, 4)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] - x[:, 3]], 1)
    if args.resume:
        for part, state in zip((net, opt), torch.load(args.state)):
            part.load_state_dict(state)
    while opt.count < 15:
        rows = torch.randperm(96, generator=torch.Generator().manual_seed(opt.count))[:24][rank::world]
        net.zero_grad()
        nn.functional.mse_loss(ddp(x[rows]), y[rows]).backward()
        opt.step()
        if opt.count == 7 and args.state and not args.resume and rank == 0:
            torch.save([net.state_dict(), opt.state_dict()], args.state)


main(arguments())
