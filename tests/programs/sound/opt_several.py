"""Three optimizers over three parts of one model, stepped by a small bundle: right because each parameter belongs to exactly one optimizer and all are cleared and stepped at every batch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Bundle:
    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for o in self.optimizers:
            o.zero_grad(set_to_none=True)

    def step(self):
        for o in self.optimizers:
            o.step()


class TextNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.mix = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
        self.norm = nn.LayerNorm(12)
        self.out = nn.Linear(12, 4)

    def forward(self, ids):
        h = self.embed(ids)
        return self.out(self.norm(h + self.mix(h)).mean(dim=1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(200)
    net = DDP(TextNet())
    m = net.module
    opts = Bundle(
        torch.optim.Adagrad(m.embed.parameters(), lr=0.05),
        torch.optim.AdamW(m.mix.parameters(), lr=3e-3),
        torch.optim.SGD([*m.norm.parameters(), *m.out.parameters()], lr=0.1),
    )
    g = torch.Generator().manual_seed(201)
    ids = torch.randint(0, 50, (128, 7), generator=g)
    labels = ids[:, 0] % 4
    for epoch in range(2):
        for rows in torch.randperm(128, generator=g).split(32):
            rows = rows[rank::world]
            opts.zero_grad()
            nn.functional.cross_entropy(net(ids[rows]), labels[rows]).backward()
            opts.step()
    dist.destroy_process_group()


main()
