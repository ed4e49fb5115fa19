"""Language model with the output weights tied to the embedding: right because the tie is made before DDP, which then sees one parameter, and its gradient sums both uses before the one reduction."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TiedLM(nn.Module):
    def __init__(self, vocab=20, dim=16, context=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(context * dim, dim)
        self.out = nn.Linear(dim, vocab)
        self.out.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.2)

    def forward(self, ids):
        h = self.embed(ids).flatten(-2)
        return self.out(torch.tanh(self.mix(h)))


def corpus(length=132):
    ids = [3, 7, 1, 12]
    for i in range(length - 4):
        ids.append((ids[-1] + 2 * ids[-3] + i % 2) % 20)
    return torch.tensor(ids)


def windows(ids, context=4):
    view = ids.unfold(0, context + 1, 1)
    return view[:, :context], view[:, context]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(730)
    model = TiedLM()
    ddp = DDP(model)
    assert len(list(ddp.parameters())) == 4
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
    contexts, nexts = windows(corpus())  # 128 windows
    for epoch in range(2):
        order = torch.randperm(len(nexts), generator=torch.Generator().manual_seed(epoch))
        for rows in order[rank::world].split(16):
            optimizer.zero_grad()
            F.cross_entropy(ddp(contexts[rows]), nexts[rows]).backward()
            optimizer.step()
    assert model.out.weight is model.embed.weight
    dist.destroy_process_group()


main()
