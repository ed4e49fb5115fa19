"""Accumulation inside of the closure handed to optimizer.step: right because the closure clears the gradients, walks the whole window and leaves exactly one window's mean gradient."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(17)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 4)))
opt = torch.optim.RAdam(net.parameters(), lr=0.02)

data_gen = torch.Generator().manual_seed(18)
basis = torch.randn(2, 4, generator=data_gen)
codes = torch.randn(128, 2, generator=data_gen)
points = codes @ basis  # a plane in four dimensions, to be rebuilt from noisy copies
noise_gen = torch.Generator().manual_seed(200 + rank)


def closure_for(window):
    micro = window.split(4)
    noisy = [m + 0.1 * torch.randn(m.shape, generator=noise_gen) for m in micro]

    def closure():
        opt.zero_grad()
        total = 0.0
        for i, (inp, out) in enumerate(zip(noisy, micro)):
            net.require_backward_grad_sync = i + 1 == len(micro)
            loss = F.mse_loss(net(inp), out) / len(micro)
            loss.backward()
            total += loss.item()
        return total

    return closure


mine = points[rank::dist.get_world_size()]
for epoch in range(3):
    order = torch.randperm(len(mine), generator=torch.Generator().manual_seed(epoch))
    for window in mine[order].split(16):
        value = opt.step(closure_for(window))
    if rank == 0:
        print(f"epoch {epoch}: last window {value:.4f}")
dist.destroy_process_group()
