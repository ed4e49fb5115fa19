"""An optimizer of one's own (Lion) as a torch.optim.Optimizer subclass: right because it reads the reduced gradients under no_grad, keeps its momentum in self.state and updates in place."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(m * b1 + p.grad * (1 - b1)), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(210)
    x = torch.randn(128, 9)
    y = (x @ torch.randn(9) > 0).float()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds, seed=3)
    loader = DataLoader(ds, 16, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(9, 20), nn.Tanh(), nn.Linear(20, 1), nn.Flatten(0)))
    opt = Lion(net.parameters(), lr=5e-3, weight_decay=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for features, target in loader:
            opt.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(net(features), target)
            loss.backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
