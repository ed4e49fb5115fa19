"""Full-batch LBFGS with the strong Wolfe line search: right because the closure returns the all-reduced loss beside DDP's reduced gradients, so every rank takes the same line search decisions."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(240)
    x = torch.randn(64, 4, generator=g)
    y = torch.sin(x @ torch.randn(4, 1, generator=g))
    x, y = x[rank::world], y[rank::world]  # equal parts: the mean of means is the mean

    torch.manual_seed(241)
    model = DDP(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=3, history_size=5, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        everywhere = loss.detach().clone()
        dist.all_reduce(everywhere)
        return everywhere / world

    for outer in range(6):
        loss = optimizer.step(closure)
        if rank == 0:
            print(f"outer {outer}: loss before {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
