"""Accumulation in buffers of one's own by torch.autograd.grad, reduced by hand before the step: right because the buffers' mean over micro-batches and ranks is put in .grad and the buffers are cleared."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class GradBank:
    def __init__(self, params):
        self.params = list(params)
        self.bank = [torch.zeros_like(p) for p in self.params]
        self.n = 0

    def deposit(self, loss):
        for slot, grad in zip(self.bank, torch.autograd.grad(loss, self.params)):
            slot.add_(grad)
        self.n += 1

    def withdraw(self):
        for p, slot in zip(self.params, self.bank):
            dist.all_reduce(slot)
            p.grad = slot / (self.n * dist.get_world_size())
            slot.zero_()
        self.n = 0


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(8)  # the same first weights everywhere
    model = nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Linear(16, 3))
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    g = torch.Generator().manual_seed(9)
    x = torch.randn(126, 12, generator=g)
    y = x[:, :3].argmax(dim=1)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    bank = GradBank(model.parameters())
    for epoch in range(3):
        g.manual_seed(1000 + epoch)
        mine = torch.randperm(126, generator=g)[rank::world]
        for i, rows in enumerate(mine.split(7), start=1):  # 9 micro-batches of 7
            bank.deposit(F.cross_entropy(model(x[rows]), y[rows]))
            if i % 3 == 0:
                bank.withdraw()
                opt.step()
    dist.destroy_process_group()
