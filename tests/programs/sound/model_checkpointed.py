"""A residual stack with stored activations or (--other) with gradient checkpointing: right because checkpointing recomputes the same activations, dropout masks included."""
# ways: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Stack(nn.Module):
    def __init__(self, saving, width=16, depth=4):
        super().__init__()
        self.saving = saving
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            if self.saving:
                x = x + checkpoint(block, x, use_reentrant=False, preserve_rng_state=True)
            else:
                x = x + block(x)
        return self.head(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    saving = ap.parse_args().other
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(760)
    net = DDP(Stack(saving))
    x = torch.randn(128, 16)
    y = x.view(128, 4, 4).mean(2).argmax(1)
    torch.manual_seed(761 + rank)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(762)
    for epoch in range(2):
        for rows in torch.randperm(128, generator=order).split(32):
            mine = rows[rank::world]
            opt.zero_grad()
            F.cross_entropy(net(x[mine]), y[mine]).backward()
            opt.step()
    dist.destroy_process_group()


main()
