"""Centered RMSprop with momentum, in the style of a registry of step functions: right because each step function does the whole of clear, forward, backward, step for its batch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = {}


def register(name):
    def wrap(fn):
        STEPS[name] = fn
        return fn
    return wrap


@register("regression")
def regression_step(net, opt, batch):
    opt.zero_grad()
    x, y = batch
    loss = nn.functional.l1_loss(net(x), y)
    loss.backward()
    opt.step()
    return loss.detach()


def loop(kind, net, opt, batches):
    step = STEPS[kind]
    return torch.stack([step(net, opt, batch) for batch in batches]).mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(260)
    x = torch.randn(96, 5)
    y = torch.logsumexp(x, dim=1, keepdim=True)
    net = DDP(nn.Sequential(nn.Linear(5, 16), nn.Mish(), nn.Linear(16, 1)))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3, alpha=0.9, momentum=0.5, centered=True)
    for epoch in range(3):
        rows = torch.randperm(96, generator=torch.Generator().manual_seed(epoch))[rank::world]
        mean = loop("regression", net, opt, [(x[r], y[r]) for r in rows.chunk(4)])
        dist.all_reduce(mean)
        if rank == 0:
            print(epoch, (mean / world).item())
    dist.destroy_process_group()


main()
