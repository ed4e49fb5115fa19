"""Metrics kept per rank and all-reduced once an epoch: right because sums and counts are reduced, not means, the meters hold detached numbers only and they start afresh each epoch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Meter:
    def __init__(self, *names):
        self.names = names
        self.reset()

    def reset(self):
        self.values = torch.zeros(len(self.names) + 1, dtype=torch.float64)

    def add(self, n, **sums):
        self.values += torch.tensor([float(sums[k]) for k in self.names] + [float(n)], dtype=torch.float64)

    def everywhere(self):
        total = self.values.clone()
        dist.all_reduce(total)
        return {k: v.item() for k, v in zip(self.names, total[:-1] / total[-1])}


def confusion(guess, y, classes):
    return torch.bincount(y * classes + guess, minlength=classes * classes).view(classes, classes)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1130)
    x = torch.randn(120, 7)
    y = x[:, :3].argmax(1)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=15, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(7, 28), nn.ReLU(), nn.Linear(28, 3)))
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    meter = Meter("loss", "accuracy")
    for epoch in range(3):
        sampler.set_epoch(epoch)
        meter.reset()
        table = torch.zeros(3, 3, dtype=torch.long)
        for a, b in loader:
            logits = net(a)
            loss = nn.functional.cross_entropy(logits, b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.add(len(b), loss=loss.item() * len(b), accuracy=(logits.argmax(1) == b).sum().item())
            table += confusion(logits.argmax(1), b, 3)
        dist.reduce(table, dst=0)
        means = meter.everywhere()
        if dist.get_rank() == 0:
            print(epoch, means, table.tolist())


main()
