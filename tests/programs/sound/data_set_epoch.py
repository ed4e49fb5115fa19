"""DistributedSampler with set_epoch inside a generator of (epoch, batch): right because the generator sets the epoch before it makes each epoch's iterator, so every epoch has an order of its own."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Parity(Dataset):
    def __init__(self, n=100, bits=5):
        g = torch.Generator().manual_seed(500)
        self.bits = torch.randint(0, 2, (n, bits), generator=g)

    def __len__(self):
        return len(self.bits)

    def __getitem__(self, i):
        row = self.bits[i]
        return row.float() * 2 - 1, row[:2].sum() % 2


def epochs_of(loader, epochs):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            yield epoch, batch


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(501)
    ds = Parity()
    loader = DataLoader(ds, batch_size=10, sampler=DistributedSampler(ds, shuffle=True))
    net = DDP(nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 2)))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch, (x, y) in epochs_of(loader, 3):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
