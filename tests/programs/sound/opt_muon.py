"""Muon for the hidden matrices and AdamW for everything else: right because Muon takes only two-dimensional parameters and both optimizers step at each batch on reduced gradients."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def split_params(net):
    muon, rest = [], []
    for name, p in net.named_parameters():
        hidden = p.ndim == 2 and not name.startswith(("first", "last"))
        (muon if hidden else rest).append(p)
    return muon, rest


class Net(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.last = nn.Linear(width, 2)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.hidden:
            x = x + torch.relu(layer(x))
        return self.last(x)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(340)
net = Net()
matrices, others = split_params(net)
ddp = DDP(net)
optimizers = [
    torch.optim.Muon(matrices, lr=0.01, weight_decay=0.01),
    torch.optim.AdamW(others, lr=3e-3),
]
g = torch.Generator().manual_seed(341)
x = torch.randn(112, 6, generator=g)
y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)
for epoch in range(2):
    for rows in torch.randperm(112, generator=g).split(16):
        rows = rows[rank::world]
        nn.functional.mse_loss(ddp(x[rows]), y[rows]).backward()
        for opt in optimizers:
            opt.step()
            opt.zero_grad()
dist.destroy_process_group()
