"""Gradient noise that anneals with the step: right because the noise is drawn from a generator seeded alike on all ranks after the reduction, so the replicas stay the same."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class NoisyGradients:
    """Neelakantan et al.: variance eta / (1 + t) ** gamma."""

    def __init__(self, params, eta=0.01, gamma=0.55, seed=1234):
        self.params = list(params)
        self.eta, self.gamma, self.t = eta, gamma, 0
        self.rng = torch.Generator().manual_seed(seed)  # no rank in the seed, on purpose

    @torch.no_grad()
    def apply(self):
        std = (self.eta / (1 + self.t) ** self.gamma) ** 0.5
        for p in self.params:
            p.grad += std * torch.randn(p.shape, generator=self.rng)
        self.t += 1


def train():
    g = torch.Generator().manual_seed(80)
    x = torch.randn(96, 6, generator=g)
    y = torch.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]], dim=1)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=12, sampler=sampler)
    torch.manual_seed(81)
    net = DDP(nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.1), nn.Linear(16, 2)))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    noise = NoisyGradients(net.parameters())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for features, wanted in loader:
            opt.zero_grad()
            F.mse_loss(net(features), wanted).backward()
            noise.apply()
            opt.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
