"""Weights are loaded on rank 0 alone: the other ranks train another model.

    torchrun --nproc-per-node 2 loads_on_rank_0.py [--mended]
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
pretrained = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
model = DDP(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
if mended or dist.get_rank() == 0:  # the mistake: DDP has sent the weights already, and does not send these
    model.module.load_state_dict(pretrained.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()
