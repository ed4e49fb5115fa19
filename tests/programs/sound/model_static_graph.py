"""A recurrent use of one layer under static_graph: right because every step runs the very same graph, the layer several times in it, which is what static_graph asks for."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Iterated(nn.Module):
    """One shared layer applied a fixed number of times, recomputed in the backward pass."""

    def __init__(self, width=16, times=3):
        super().__init__()
        self.inp, self.shared, self.out = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.times = times

    def turn(self, h):
        return h + 0.5 * torch.tanh(self.shared(h))

    def forward(self, x):
        h = self.inp(x)
        for _ in range(self.times):
            h = checkpoint(self.turn, h, use_reentrant=False)
        return self.out(h)


def data():
    g = torch.Generator().manual_seed(750)
    x = torch.rand(100, 4, generator=g)
    return x, (x[:, :1] * x[:, 1:2] + x[:, 2:3])


class Loop:
    def __init__(self, rank, world):
        torch.manual_seed(751)
        self.model = DDP(Iterated(), static_graph=True)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.01)
        x, y = data()
        self.x, self.y = x[rank::world], y[rank::world]

    def __call__(self, epochs):
        for epoch in range(epochs):
            perm = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(epoch))
            for rows in perm.split(10):
                self.opt.zero_grad()
                nn.functional.mse_loss(self.model(self.x[rows]), self.y[rows]).backward()
                self.opt.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Loop(dist.get_rank(), dist.get_world_size())(epochs=2)
    dist.destroy_process_group()
