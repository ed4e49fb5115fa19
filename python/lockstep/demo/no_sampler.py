"""No sampler: each rank trains on all the data, and the second GPU buys nothing.

    torchrun --nproc-per-node 2 no_sampler.py [--mended]
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
sampler = DistributedSampler(data) if mended else None  # the mistake: DistributedSampler is missing
loader = DataLoader(data, batch_size=16, sampler=sampler)

for epoch in range(3):
    if sampler is not None:
        sampler.set_epoch(epoch)
    for batch, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()
