"""Adagrad with lr_decay and a first accumulator value, run by a generator of losses: right because the loop pulls one loss per step and clears, back-propagates and steps in that order."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

USERS, ITEMS, DIM = 20, 15, 6


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item = nn.Embedding(ITEMS, DIM)
        self.bias = nn.Embedding(ITEMS, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias(i).squeeze(-1)


def ratings(n=128):
    g = torch.Generator().manual_seed(250)
    u = torch.randint(0, USERS, (n,), generator=g)
    i = torch.randint(0, ITEMS, (n,), generator=g)
    taste = torch.randn(USERS, 2, generator=g) @ torch.randn(2, ITEMS, generator=g)
    return u, i, taste[u, i]


def losses(model, rank, world):
    u, i, r = ratings()
    shuffle = torch.Generator().manual_seed(251)
    for _ in range(3):
        for rows in torch.randperm(len(r), generator=shuffle).split(32):
            rows = rows[rank::world]
            yield nn.functional.mse_loss(model(u[rows], i[rows]), r[rows])


dist.init_process_group("gloo")
torch.manual_seed(252)
model = DDP(Factors())
opt = torch.optim.Adagrad(model.parameters(), lr=0.3, lr_decay=1e-2, initial_accumulator_value=0.01)
for loss in losses(model, dist.get_rank(), dist.get_world_size()):
    opt.zero_grad()
    loss.backward()
    opt.step()
dist.destroy_process_group()
