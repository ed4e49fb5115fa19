"""Length-bucketed batches of padded sequences: right because batches are cut from sequences of like length, shuffled alike on all ranks and dealt out in pairs, so each rank has as many as the other."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence


def sequences(n=96):
    g = torch.Generator().manual_seed(600)
    lengths = torch.randint(3, 13, (n,), generator=g).tolist()
    seqs = [torch.randint(1, 16, (length,), generator=g) for length in lengths]
    labels = torch.tensor([int((s > 8).float().mean() > 0.5) for s in seqs])
    return seqs, labels


class BucketBatches:
    def __init__(self, seqs, size):
        by_length = sorted(range(len(seqs)), key=lambda i: (len(seqs[i]), i))
        self.batches = [by_length[i:i + size] for i in range(0, len(seqs), size)]

    def for_rank(self, epoch, rank, world):
        order = torch.randperm(len(self.batches), generator=torch.Generator().manual_seed(epoch)).tolist()
        usable = len(order) // world * world
        for k in order[rank:usable:world]:
            yield self.batches[k]


class MeanPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 12, padding_idx=0)
        self.out = nn.Linear(12, 2)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        return self.out((self.embed(ids) * mask).sum(1) / mask.sum(1))


dist.init_process_group("gloo")
torch.manual_seed(601)
seqs, labels = sequences()
buckets = BucketBatches(seqs, size=12)
net = DDP(MeanPool())
opt = torch.optim.AdamW(net.parameters(), lr=0.03)
for epoch in range(3):
    for rows in buckets.for_rank(epoch, dist.get_rank(), dist.get_world_size()):
        ids = pad_sequence([seqs[i] for i in rows], batch_first=True)
        opt.zero_grad()
        F.cross_entropy(net(ids), labels[rows]).backward()
        opt.step()
dist.destroy_process_group()
