"""SparseAdam for a sparse embedding beside Adam for the dense rest: right because DDP reduces sparse gradients over Gloo and each optimizer gets only gradients of its own kind."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Tags(nn.Module):
    def __init__(self, tags=60, dim=10):
        super().__init__()
        self.table = nn.Embedding(tags, dim, sparse=True)
        self.score = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        return self.score(self.table(ids).sum(dim=1)).squeeze(1)


def train(model, sparse, dense, batches):
    criterion = nn.BCEWithLogitsLoss()
    for ids, target in batches:
        sparse.zero_grad()
        dense.zero_grad()
        criterion(model(ids), target).backward()
        sparse.step()
        dense.step()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(280)
    model = DistributedDataParallel(Tags())
    sparse = torch.optim.SparseAdam(model.module.table.parameters(), lr=0.02)
    dense = torch.optim.Adam(model.module.score.parameters(), lr=5e-3)
    g = torch.Generator().manual_seed(281)
    ids = torch.randint(0, 60, (120, 4), generator=g)
    target = (ids[:, 0] < ids[:, 1]).float()
    for epoch in range(2):
        rows = torch.randperm(120, generator=g)[rank::world]
        train(model, sparse, dense, [(ids[r], target[r]) for r in rows.split(12)])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
