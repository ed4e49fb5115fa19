"""Weight decay added to the gradients by hand or (--other) by SGD's own weight_decay in a param group: right because both add decay times weight to the reduced gradient of the matrices and leave the biases alone."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

DECAY = 0.02


def optimizer_for(net, inside):
    matrices = [p for p in net.parameters() if p.ndim > 1]
    vectors = [p for p in net.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": DECAY if inside else 0.0},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9), matrices


@torch.no_grad()
def add_decay(params):
    for p in params:
        p.grad.add_(p, alpha=DECAY)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    inside = ap.parse_args().other
    dist.init_process_group("gloo")
    torch.manual_seed(71)
    x = torch.randn(80, 8)
    y = (x.prod(dim=1) > 0).long()
    net = DDP(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2)))
    opt, matrices = optimizer_for(net, inside)
    order = torch.Generator().manual_seed(72)
    for _ in range(3):
        perm = torch.randperm(80, generator=order)
        for batch in perm.view(4, dist.get_world_size(), -1):
            rows = batch[dist.get_rank()]
            opt.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            if not inside:
                add_decay(matrices)
            opt.step()
    dist.destroy_process_group()


main()
