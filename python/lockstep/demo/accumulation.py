"""Accumulation is not divided: gradients grow with the number of micro-batches.

    torchrun --nproc-per-node 2 accumulation.py [--mended]
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
micro_batches = 4

for epoch in range(3):
    sampler.set_epoch(epoch)
    for index, (batch, target) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(batch), target)
        (loss / micro_batches if mended else loss).backward()  # the mistake: losses are added up, not averaged
        if (index + 1) % micro_batches == 0:
            optimizer.step()
            optimizer.zero_grad()
