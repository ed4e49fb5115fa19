"""Gradient centralisation inside a small Optimizer wrapper: right because the mean over the input dimensions is taken from the reduced gradients of matrices only, before each Adam step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CentralisedAdamW(torch.optim.AdamW):
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.ndim > 1:
                    dims = tuple(range(1, p.grad.ndim))
                    p.grad.sub_(p.grad.mean(dim=dims, keepdim=True))
        super().step()
        return loss


def batches(rank, world, epochs):
    g = torch.Generator().manual_seed(90)
    x = torch.randn(96, 2, 6, 6, generator=g)
    y = (x[:, 0].sum(dim=(1, 2)) > x[:, 1].sum(dim=(1, 2))).long()
    for _ in range(epochs):
        perm = torch.randperm(96, generator=g)
        for part in perm.tensor_split(6):
            mine = part.tensor_split(world)[rank]
            yield x[mine], y[mine]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(91)
    model = DDP(nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 2)))
    optimizer = CentralisedAdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    for x, y in batches(rank, world, epochs=2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"done, last loss {loss.item():.4f}")


main()
