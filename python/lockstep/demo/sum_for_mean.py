"""A sum for a mean: gradients are W times too large, as if the rate were.

    torchrun --nproc-per-node 2 sum_for_mean.py [--mended]
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
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
if mended:
    model = DDP(model)  # averages the gradients
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), target).backward()
        if not mended:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)  # the mistake: the sum is not divided by the number of ranks
        optimizer.step()
