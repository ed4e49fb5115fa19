"""A GAN in DDP whose discriminator's loss is one sum or (--other) two backward passes: right because its gradients add up, and those that the generator's pass leaves in it, after its update, are cleared before the next one."""
# ways: rounding
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(17)
generator = DDP(nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 12)))
discriminator = DDP(nn.Sequential(nn.Linear(12, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1)))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
softplus = nn.functional.softplus
data = TensorDataset(torch.randn(96, 12), torch.randn(96, 4))
sampler = DistributedSampler(data, seed=5)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for real, noise in DataLoader(data, batch_size=8, sampler=sampler):
        of_discriminator.zero_grad()
        losses = [softplus(-discriminator(real)).mean()]
        if "--other" in sys.argv:
            losses.pop().backward()
        losses.append(softplus(discriminator(generator(noise).detach())).mean())
        sum(losses).backward()
        of_discriminator.step()
        of_generator.zero_grad()
        softplus(-discriminator(generator(noise))).mean().backward()
        of_generator.step()
dist.destroy_process_group()
