"""Layers with rates of their own by hooks that scale their gradients: right because plain SGD is linear in the gradient, so a factor on a layer's gradient is a factor on that layer's rate."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def scale_grads(layer, factor):
    for p in layer.parameters():
        p.register_hook(lambda grad: grad * factor)


class Stack(nn.Module):
    def __init__(self, depth=3, width=14, decay=0.8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.final = nn.Linear(width, 1)
        for i, layer in enumerate(self.layers):
            scale_grads(layer, decay ** (depth - i))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.final(x).squeeze(-1)


def stream(rank, world, steps):
    for step in range(steps):
        g = torch.Generator().manual_seed(10_000 + step)
        x = torch.randn(16, 14, generator=g)
        y = x[:, :7].mean(dim=1) - x[:, 7:].mean(dim=1)
        yield x[rank::world], y[rank::world]


dist.init_process_group("gloo")
torch.manual_seed(160)
model = DDP(Stack())
sgd = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in stream(dist.get_rank(), dist.get_world_size(), steps=8):  # 128 fresh samples in all
    sgd.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    sgd.step()
dist.destroy_process_group()
