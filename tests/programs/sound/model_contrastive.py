"""Contrastive loss over the embeddings of all ranks: right because all_gather from torch.distributed.nn.functional keeps the gradients, so DDP's mean is the gradient of the mean loss over all ranks."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel as DDP


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def clip_style_loss(a, b, temperature=0.2):
    everyone_a, everyone_b = torch.cat(all_gather(a)), torch.cat(all_gather(b))
    own = torch.arange(len(a)) + dist.get_rank() * len(a)
    return 0.5 * (
        F.cross_entropy(a @ everyone_b.T / temperature, own)
        + F.cross_entropy(b @ everyone_a.T / temperature, own)
    )


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(830)
    ddp = DDP(Encoder())
    opt = torch.optim.Adam(ddp.parameters(), lr=5e-3)
    g = torch.Generator().manual_seed(831)
    x = torch.randn(96, 10, generator=g)
    views = torch.Generator().manual_seed(832 + rank)
    for epoch in range(2):
        for rows in torch.randperm(96, generator=g).split(16):
            mine = x[rows[rank::world]]
            pair = [mine + 0.2 * torch.randn(mine.shape, generator=views) for _ in range(2)]
            a, b = ddp(torch.cat(pair)).chunk(2)
            loss = clip_style_loss(a, b)
            opt.zero_grad()
            loss.backward()
            opt.step()
    if rank == 0:
        print("last loss on rank 0:", loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
