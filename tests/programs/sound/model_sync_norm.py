"""Batch norm synchronised over the ranks on CPU (where nn.SyncBatchNorm has no kernel): right because the moments are averaged by an all_reduce that autograd differentiates, so the gradient flows through both."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel as DDP


class SyncNorm(nn.Module):
    def __init__(self, width, momentum=0.1, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
        self.momentum, self.eps = momentum, eps

    def forward(self, x):
        mean, var = self.mean, self.var
        if self.training:
            moments = torch.cat([x.mean(0), x.square().mean(0)]) / dist.get_world_size()
            mean, square = all_reduce(moments).chunk(2)
            var = square - mean.square()
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.var.lerp_(var, self.momentum)
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(710)
    net = nn.Sequential(nn.Linear(6, 24, bias=False), SyncNorm(24), nn.ReLU(), nn.Linear(24, 2))
    ddp = DDP(net, broadcast_buffers=False)  # the buffers are the same on all ranks as it is
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    g = torch.Generator().manual_seed(711)
    x = torch.randn(96, 6, generator=g) * 3 + 1
    y = (x[:, 0] > x[:, 1]).long()
    for epoch in range(2):
        for rows in torch.randperm(96, generator=g).split(16):
            mine = rows.chunk(world)[rank]
            opt.zero_grad()
            F.cross_entropy(ddp(x[mine]), y[mine]).backward()
            opt.step()
    ddp.eval()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).sum().item()
    print(f"rank {rank}: {right} of {len(x)}")
    dist.destroy_process_group()


main()
