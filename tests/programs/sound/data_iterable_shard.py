"""An iterable dataset sharded by rank: right because every rank walks the same stream, whose seed carries the epoch, and keeps each world-th record; the stream's length divides evenly."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, length, rank, world):
        self.length, self.rank, self.world = length, rank, world
        self.epoch = 0

    def records(self):
        g = torch.Generator().manual_seed(540 + self.epoch)
        for _ in range(self.length):
            x = torch.rand(2, generator=g) * 2 - 1
            yield x, torch.sin(3 * x[:1]) * x[1:]

    def __iter__(self):
        for number, record in enumerate(self.records()):
            if number % self.world == self.rank:
                yield record


def fit(net, opt, stream, epochs):
    loader = DataLoader(stream, batch_size=5)
    for epoch in range(epochs):
        stream.epoch = epoch
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            opt.step()
        yield loss.item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(541)
    net = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    stream = Stream(40, dist.get_rank(), dist.get_world_size())
    for epoch, loss in enumerate(fit(net, opt, stream, epochs=3)):
        if dist.get_rank() == 0:
            print(epoch, loss)
    dist.destroy_process_group()


main()
