"""Clipping by a norm computed by hand, with a running mean of the norms as its limit: right because the norm is taken over all reduced gradients after backward and only ever shrinks them."""
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class AutoClip:
    def __init__(self, factor=1.5, decay=0.9):
        self.factor, self.decay, self.mean = factor, decay, None

    @torch.no_grad()
    def __call__(self, model):
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(g.pow(2).sum().item() for g in grads))
        limit = self.factor * (self.mean if self.mean is not None else norm)
        if norm > limit:
            for g in grads:
                g.mul_(limit / norm)
        clipped = min(norm, limit)
        self.mean = clipped if self.mean is None else self.decay * self.mean + (1 - self.decay) * clipped
        return norm


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    net = DDP(nn.Sequential(nn.Conv1d(1, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(96, 2)))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    clip = AutoClip()
    g = torch.Generator().manual_seed(3)
    waves = torch.randn(128, 1, 16, generator=g).cumsum(dim=2) / 4
    label = (waves[:, 0, -1] > waves[:, 0, 0]).long()
    for epoch in range(2):
        for rows in torch.randperm(128, generator=g).split(16):
            mine = rows[rank::world]
            loss = F.cross_entropy(net(waves[mine]), label[mine])
            opt.zero_grad()
            loss.backward()
            clip(net)
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
