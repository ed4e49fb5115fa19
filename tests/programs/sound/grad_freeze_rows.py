"""Embedding whose first rows are given vectors that must stay fixed: right because a mask zeroes those rows of the reduced gradient and plain SGD without decay or momentum then leaves them as they are."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

GIVEN, WORDS, DIM = 10, 40, 8


class Classifier(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        with torch.no_grad():
            self.words.weight[:GIVEN] = given
        self.out = nn.Linear(DIM, 2)

    def forward(self, ids):
        return self.out(self.words(ids).sum(dim=1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(120)
    given = torch.randn(GIVEN, DIM, generator=g)
    ids = torch.randint(0, WORDS, (128, 5), generator=g)
    labels = (ids.float().mean(dim=1) > WORDS / 2).long()
    torch.manual_seed(121)
    ddp = DDP(Classifier(given))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.2)
    keep = torch.ones(WORDS, 1)
    keep[:GIVEN] = 0.0
    table = ddp.module.words.weight
    for epoch in range(2):
        order = torch.randperm(128, generator=g)
        for rows in order.reshape(8, 16):
            mine = rows.chunk(world)[rank]
            opt.zero_grad()
            nn.functional.cross_entropy(ddp(ids[mine]), labels[mine]).backward()
            table.grad.mul_(keep)
            opt.step()
    assert torch.equal(table[:GIVEN].detach(), given)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
