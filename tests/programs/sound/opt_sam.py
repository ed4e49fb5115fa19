"""Sharpness-aware minimisation (SAM) in two passes: right because the climb and the step both use reduced gradients, and the weights are put back exactly before the base optimizer steps."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    def _params(self):
        return [p for group in self.param_groups for p in group["params"] if p.grad is not None]

    @torch.no_grad()
    def climb(self):
        params = self._params()
        norm = torch.stack([p.grad.norm() for p in params]).norm() + 1e-12
        for p in params:
            self.state[p]["before"] = p.clone()
            p.add_(p.grad * (self.param_groups[0]["rho"] / norm))

    @torch.no_grad()
    def step(self, closure):
        """The first gradient is there already; closure gives the second."""
        self.climb()
        self.zero_grad()
        with torch.enable_grad():
            closure()
        for p in self._params():
            p.copy_(self.state[p].pop("before"))
        self.base.step()
        self.zero_grad()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(220)
    ddp = DDP(nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3)))
    sam = SAM(ddp.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    g = torch.Generator().manual_seed(221)
    x = torch.randn(120, 10, generator=g)
    y = x[:, 3:6].argmax(dim=1)
    for epoch in range(2):
        for rows in torch.randperm(120, generator=g)[rank::world].split(12):
            def loss_backward():
                loss = F.cross_entropy(ddp(x[rows]), y[rows])
                loss.backward()
                return loss
            loss_backward()
            sam.step(loss_backward)
    dist.destroy_process_group()


main()
