"""EmbeddingBag over ragged bags with offsets: right because ids and offsets of the rank's own rows are built together and the bag's mean is taken per row, so no padding enters the loss."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WORDS = 40


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, 12, mode="mean")
        self.out = nn.Linear(12, 3)

    def forward(self, ids, offsets):
        return self.out(self.bag(ids, offsets))


def texts(n=120):
    g = torch.Generator().manual_seed(880)
    lengths = torch.randint(2, 9, (n,), generator=g).tolist()
    bags = [torch.randint(0, WORDS, (k,), generator=g) for k in lengths]
    labels = torch.tensor([int(b.float().mean() // 13.4) for b in bags]).clamp_max(2)
    return bags, labels


def pack(bags):
    lengths = torch.tensor([0] + [len(b) for b in bags[:-1]])
    return torch.cat(bags), lengths.cumsum(0)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    bags, labels = texts()
    torch.manual_seed(881)
    net = DDP(Bags())
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    for epoch in range(3):
        order = torch.randperm(len(bags), generator=torch.Generator().manual_seed(epoch))
        for rows in order.view(-1, 30):
            rows = rows[rank::world]
            ids, offsets = pack([bags[i] for i in rows.tolist()])
            opt.zero_grad()
            F.cross_entropy(net(ids, offsets), labels[rows]).backward()
            opt.step()
    dist.destroy_process_group()


main()
