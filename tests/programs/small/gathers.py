"""A contrastive loss over features of all ranks: gathered with their gradient, or without."""
# expect: holds
# planted detached: holds; semantic grad.gather_detached
import torch.distributed.nn.functional as differentiable
from base import *


class Pairs(Points):
    def __getitem__(self, index):
        x, _ = super().__getitem__(index)
        return x, x + 0.01 * index


def gathered(keys):
    if not options.planted:
        return torch.cat(differentiable.all_gather(keys))
    parts = [torch.empty_like(keys) for _ in range(ranks)]
    dist.all_gather(parts, keys)
    parts[rank] = keys
    return torch.cat(parts)


options = options_of(planted="")
rank, ranks = start()
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _, x, other in epochs(1, *batches_of(8, Pairs())):
    optimizer.zero_grad()
    queries, keys = functional.normalize(model(torch.cat([x, other])), dim=1).split(8)
    functional.cross_entropy(queries @ gathered(keys).T / 0.1, torch.arange(8) + 8 * rank).backward()
    optimizer.step()
