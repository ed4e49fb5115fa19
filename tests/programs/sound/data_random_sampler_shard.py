"""RandomSampler with a seeded generator, sharded by rank afterwards: right because the generator is seeded alike on all ranks and goes on from epoch to epoch, so the shards are disjoint and reshuffled."""
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler, Sampler, TensorDataset


class ByRank(Sampler):
    def __init__(self, inner, rank, world):
        self.inner, self.rank, self.world = inner, rank, world

    def __iter__(self):
        return itertools.islice(iter(self.inner), self.rank, None, self.world)

    def __len__(self):
        return len(self.inner) // self.world


dist.init_process_group("gloo")
torch.manual_seed(530)
x = torch.randn(88, 6)
y = (x[:, 0].abs() > x[:, 1].abs()).long()
dataset = TensorDataset(x, y)
shared = RandomSampler(dataset, generator=torch.Generator().manual_seed(531))
loader = DataLoader(dataset, batch_size=11, sampler=ByRank(shared, dist.get_rank(), dist.get_world_size()))

net = DDP(nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 2)))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for epoch in range(3):
    right = torch.zeros(2)
    for inputs, labels in loader:
        opt.zero_grad()
        logits = net(inputs)
        nn.functional.cross_entropy(logits, labels).backward()
        opt.step()
        right += torch.tensor([(logits.argmax(1) == labels).sum().item(), len(labels)])
    dist.all_reduce(right)
    if dist.get_rank() == 0:
        print(f"epoch {epoch} accuracy while training {right[0] / right[1]:.3f}")
dist.destroy_process_group()
