"""A soft mixture of experts with balancing biases in a buffer: right because all experts get gradients, and the buffer follows the all-reduced use of the experts outside of the graph, alike on all ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Mixture(nn.Module):
    def __init__(self, inp=5, out=2, experts=4, width=12):
        super().__init__()
        self.gate = nn.Linear(inp, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, out)) for _ in range(experts)
        )
        self.register_buffer("balance", torch.zeros(experts))

    def forward(self, x):
        weights = (self.gate(x) + self.balance).softmax(dim=1)
        outputs = torch.stack([e(x) for e in self.experts], dim=1)
        return (weights.unsqueeze(-1) * outputs).sum(1), weights


@torch.no_grad()
def rebalance(module, weights, rate=0.05):
    use = weights.mean(dim=0)
    dist.all_reduce(use)
    use /= dist.get_world_size()
    module.balance += rate * torch.sign(use.mean() - use)


def run():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(850)
    ddp = DDP(Mixture())
    opt = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(851)
    x = torch.randn(112, 5, generator=g)
    y = torch.where(x[:, :1] > 0, x[:, 1:3], -x[:, 3:5])
    for epoch in range(2):
        for rows in torch.randperm(112, generator=g).tensor_split(7):
            rows = rows[rank::world]
            out, weights = ddp(x[rows])
            opt.zero_grad()
            nn.functional.mse_loss(out, y[rows]).backward()
            opt.step()
            rebalance(ddp.module, weights.detach())
    if rank == 0:
        print("balance:", ddp.module.balance.tolist())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run()
    dist.destroy_process_group()
