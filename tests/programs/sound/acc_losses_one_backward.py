"""Accumulation by collecting the losses of several forward passes and one backward pass over their mean: right because each parameter then gets its whole gradient at once and DDP reduces it once."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.out = nn.Linear(8, 5)

    def forward(self, ids):
        return self.out(self.embed(ids).mean(dim=1))


def make_data():
    g = torch.Generator().manual_seed(13)
    ids = torch.randint(0, 30, (128, 6), generator=g)
    return ids, ids.sum(dim=1) % 5


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    ids, labels = (t[rank::world] for t in make_data())
    ddp = DDP(Scorer())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=5e-3, weight_decay=0.01)
    shuffle = torch.Generator().manual_seed(50 + rank)
    for epoch in range(3):
        losses = []
        order = torch.randperm(len(ids), generator=shuffle)
        for start in range(0, len(order), 4):
            rows = order[start:start + 4]
            losses.append(criterion(ddp(ids[rows]), labels[rows]))
            if len(losses) == 4:
                optimizer.zero_grad(set_to_none=True)
                torch.stack(losses).mean().backward()
                optimizer.step()
                losses.clear()
    dist.barrier()
    dist.destroy_process_group()


main()
