"""Language model on padded sentences whose gradients are divided by the global token count: right because the loss is a sum over real tokens and the all-reduced count, less DDP's own averaging, is the divisor."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, PAD = 24, 0


class NextToken(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def sentences(n=96, longest=10):
    g = torch.Generator().manual_seed(101)
    lengths = torch.randint(4, longest + 1, (n,), generator=g)
    start = torch.randint(1, VOCAB, (n, 1), generator=g)
    ids = (start + torch.arange(longest) * 2 - 1) % (VOCAB - 1) + 1
    ids[torch.arange(longest) >= lengths[:, None]] = PAD
    return ids


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(102)
model = DDP(NextToken())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = sentences()
for epoch in range(2):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(16):
        ids = data[batch[rank::world]]
        inputs, targets = ids[:, :-1], ids[:, 1:]
        tokens = (targets != PAD).sum()
        dist.all_reduce(tokens)
        total = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
        optimizer.zero_grad()
        total.backward()
        for p in model.parameters():
            p.grad *= world / tokens.item()
        optimizer.step()
dist.destroy_process_group()
