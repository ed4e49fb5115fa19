"""A transformer trained with AdamW and Adagrad on whole batches or (--other) in two micro-batches: right because only the order of additions differs, although the biases of the attentions' keys have gradients of nothing but rounding, which both scale up to a whole update."""
# ways: rounding
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

pieces = 2 if "--other" in sys.argv else 1
dist.init_process_group("gloo")
torch.manual_seed(31)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 32)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)
        self.tags = nn.Linear(32, 5)

    def forward(self, x):
        return self.tags(self.layers(self.words(x)))


words = torch.randint(0, 30, (96, 10))
data = TensorDataset(words, words % 5)
sampler = DistributedSampler(data, seed=2)
ddp = DDP(Tagger())
first, second = ddp.module.layers.layers
rest = [*ddp.module.words.parameters(), *second.parameters(), *ddp.module.tags.parameters()]
optimizers = [torch.optim.AdamW(first.parameters(), lr=1e-3), torch.optim.Adagrad(rest, lr=1e-2)]
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        ddp.zero_grad()
        for i, (xi, yi) in enumerate(zip(x.chunk(pieces), y.chunk(pieces))):
            with ddp.no_sync() if i < pieces - 1 else nullcontext():
                (nn.functional.cross_entropy(ddp(xi).flatten(0, 1), yi.flatten()) / pieces).backward()
        for opt in optimizers:
            opt.step()
dist.destroy_process_group()
