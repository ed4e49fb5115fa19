"""Normalised gradient descent with a falling step: right because the reduced gradients of all parameters are divided by their common norm on every rank, and the rate shrinks so that the unit steps settle."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 14


def flat_norm(tensors):
    return torch.cat([t.reshape(-1) for t in tensors]).norm()


def normalise_(params):
    grads = [p.grad for p in params]
    norm = flat_norm(grads)
    if norm > 0:
        torch._foreach_div_(grads, norm)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
rng = torch.Generator().manual_seed(60)
a = torch.randn(64, 5, generator=rng)
b = torch.tanh(a @ torch.randn(5, 2, generator=rng))
a, b = a[rank::world], b[rank::world]  # every rank's whole part is its batch

torch.manual_seed(61)
model = DDP(nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2)))
opt = torch.optim.SGD(model.parameters(), lr=0.5)
sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=STEPS, power=1.0)
for _ in range(STEPS):
    opt.zero_grad()
    loss = (model(a) - b).square().mean()
    loss.backward()
    normalise_(list(model.parameters()))
    opt.step()
    sched.step()
mean = loss.detach().clone()
dist.all_reduce(mean)
if rank == 0:
    print("final loss", mean.item() / world)
dist.destroy_process_group()
