"""A curriculum whose subset grows from the easy samples to all of them: right because difficulty is known from the data, each stage has a sampler of its own over its subset, and the last stage has everything."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

STAGES = (48, 80, 128)


def by_margin():
    g = torch.Generator().manual_seed(640)
    x = torch.randn(128, 6, generator=g)
    margin = x[:, 0] + x[:, 1]
    easy_first = torch.argsort(margin.abs(), descending=True, stable=True)
    return TensorDataset(x, (margin > 0).long()), easy_first.tolist()


class Curriculum:
    def __init__(self, dataset, order, batch):
        self.dataset, self.order, self.batch = dataset, order, batch

    def __iter__(self):
        for stage, size in enumerate(STAGES):
            subset = Subset(self.dataset, self.order[:size])
            sampler = DistributedSampler(subset, shuffle=True, seed=641)
            sampler.set_epoch(stage)
            yield stage, DataLoader(subset, batch_size=self.batch, sampler=sampler)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(642)
    net = DDP(nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 2)))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.8)
    dataset, order = by_margin()
    for stage, loader in Curriculum(dataset, order, batch=8):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            print(f"stage {stage}: {len(loader)} updates, last loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
