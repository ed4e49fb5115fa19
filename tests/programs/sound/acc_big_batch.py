"""One step over a batch of 16, whole or (with --other) cut in four micro-batches: right because each part's mean loss is weighted by its share of the batch, which adds up to the mean over the batch."""
# ways: rounding
import argparse
from contextlib import ExitStack

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_step(ddp, opt, x, y, pieces):
    opt.zero_grad()
    xs, ys = x.chunk(pieces), y.chunk(pieces)
    for i, (xi, yi) in enumerate(zip(xs, ys)):
        with ExitStack() as stack:
            if i < len(xs) - 1:
                stack.enter_context(ddp.no_sync())
            share = len(xi) / len(x)
            (F.smooth_l1_loss(ddp(xi), yi) * share).backward()
    opt.step()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--other", action="store_true")
    pieces = 4 if ap.parse_args().other else 1
    dist.init_process_group("gloo")
    torch.manual_seed(21)
    x = torch.rand(128, 5)
    y = (x ** 2).sum(1, keepdim=True)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    ddp = DDP(nn.Sequential(nn.Linear(5, 20), nn.Softplus(), nn.Linear(20, 1)))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.5)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            train_step(ddp, opt, x, y, pieces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
