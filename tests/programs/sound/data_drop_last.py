"""DistributedSampler and DataLoader both with drop_last over 117 samples: right because every rank then has the same number of full batches, and reshuffling leaves others out each epoch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, StackDataset


def make_sets():
    g = torch.Generator().manual_seed(510)
    left = torch.randn(117, 4, generator=g)
    right = torch.randn(117, 4, generator=g)
    return StackDataset(left=left, right=right, closer=(left.norm(dim=1) < right.norm(dim=1)).float())


class Compare(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1, bias=False))

    def forward(self, left, right):
        both = self.score(torch.cat([left, right]))
        a, b = both.chunk(2)
        return (a - b).squeeze(1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(511)
    ds = make_sets()
    sampler = DistributedSampler(ds, drop_last=True, seed=7)
    loader = DataLoader(ds, batch_size=12, sampler=sampler, drop_last=True)
    model = DDP(Compare())
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for sample in loader:
            logits = model(sample["left"], sample["right"])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, sample["closer"])
            opt.zero_grad()
            loss.backward()
            opt.step()
    dist.destroy_process_group()


main()
