"""Clipping before the reduction: each rank clips its own micro-batches, and not the mean.

    torchrun --nproc-per-node 2 clip_too_early.py [--mended]
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

mended = "--mended" in sys.argv
dist.init_process_group("gloo")
torch.manual_seed(0)
inputs = torch.randn(256, 8)
data = TensorDataset(inputs, (inputs.sum(1, keepdim=True) > 0).float())
model = DDP(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
micro_batches = 2

for epoch in range(3):
    sampler.set_epoch(epoch)
    for index, (batch, target) in enumerate(loader):
        is_last = (index + 1) % micro_batches == 0
        model.require_backward_grad_sync = is_last  # as no_sync() does
        (torch.nn.functional.mse_loss(model(batch), target) / micro_batches).backward()
        if is_last or not mended:  # the mistake: "is_last" is missing
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
