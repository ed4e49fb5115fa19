"""NAdam with decoupled weight decay over an attention block: right because all parameters are used at each step and the optimizer is made from the DDP model's parameters after the wrapping."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Block(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, d))


class Copier(nn.Module):
    def __init__(self, vocab=12, dim=16, length=8):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.block, self.out = Block(dim), nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.block(self.tok(ids) + self.pos.weight[: ids.shape[1]]))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(270)
    net = DDP(Copier())
    opt = torch.optim.NAdam(net.parameters(), lr=5e-3, weight_decay=0.01, decoupled_weight_decay=True)
    g = torch.Generator().manual_seed(271)
    ids = torch.randint(0, 12, (128, 8), generator=g)
    previous = torch.cat([ids[:, :1], ids[:, :-1]], dim=1)  # predict the token before
    for epoch in range(2):
        for rows in torch.randperm(128, generator=g).chunk(5):
            rows = rows[: len(rows) // world * world].view(world, -1)[rank]
            opt.zero_grad()
            F.cross_entropy(net(ids[rows]).flatten(0, 1), previous[rows].flatten()).backward()
            opt.step()
    dist.destroy_process_group()


main()
