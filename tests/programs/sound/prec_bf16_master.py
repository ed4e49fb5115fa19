"""bfloat16 weights with float32 masters: right because the optimizer steps on the masters with the reduced gradients as float32, and the weights are rounded copies, so small updates are not lost."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MasterWeights:
    def __init__(self, working, make_optimizer):
        self.working = list(working)
        self.masters = [p.detach().float().clone().requires_grad_(True) for p in self.working]
        self.optimizer = make_optimizer(self.masters)

    def step(self):
        for m, w in zip(self.masters, self.working):
            m.grad = w.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            for m, w in zip(self.masters, self.working):
                w.copy_(m)

    def zero_grad(self):
        self.optimizer.zero_grad()
        for w in self.working:
            w.grad = None


def adam(params):
    return torch.optim.Adam(params, lr=3e-3)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(910)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)).to(torch.bfloat16)
    ddp = DDP(model)
    weights = MasterWeights(ddp.parameters(), adam)
    g = torch.Generator().manual_seed(911)
    x = torch.randn(128, 8, generator=g)
    y = (x[:, 0] + x[:, 1] > x[:, 2]).long()
    for epoch in range(3):
        for rows in torch.randperm(128, generator=g).split(32):
            rows = rows[rank::world]
            logits = ddp(x[rows].to(torch.bfloat16))
            weights.zero_grad()
            nn.functional.cross_entropy(logits.float(), y[rows]).backward()
            weights.step()
    dist.destroy_process_group()


main()
