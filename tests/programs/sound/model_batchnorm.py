"""BatchNorm under DDP with an evaluation at the end of each epoch: right because training uses each rank's own batch statistics, DDP broadcasts rank 0's running ones and evaluation runs in eval mode."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def conv_bn(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def make_net():
    return nn.Sequential(
        conv_bn(1, 6), nn.MaxPool2d(2), conv_bn(6, 12), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3)
    )


def stripes(n=96, size=8):
    g = torch.Generator().manual_seed(700)
    label = torch.arange(n) % 3
    line = torch.sin(torch.arange(size) * 1.6)
    kinds = torch.stack([line.expand(size, size), line[:, None].expand(size, size), torch.zeros(size, size)])
    return kinds[label][:, None] + 0.4 * torch.randn(n, 1, size, size, generator=g), label


def accuracy(ddp, x, y):
    ddp.eval()
    with torch.no_grad():
        right = (ddp.module(x).argmax(1) == y).float().mean().item()
    ddp.train()
    return right


dist.init_process_group("gloo")
torch.manual_seed(701)
x, y = stripes()
ds = TensorDataset(x[:72], y[:72])
sampler = DistributedSampler(ds)
loader = DataLoader(ds, batch_size=9, sampler=sampler)
ddp = DDP(make_net())
opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for a, b in loader:
        opt.zero_grad()
        F.cross_entropy(ddp(a), b).backward()
        opt.step()
    if dist.get_rank() == 0:  # no collectives inside, so one rank may do it alone
        print(epoch, accuracy(ddp, x[72:], y[72:]))
dist.destroy_process_group()
