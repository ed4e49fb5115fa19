"""A model whose auxiliary head is used at every other step, under find_unused_parameters: right because all ranks skip it at the same steps, its gradients stay None then and the optimizer passes it by."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class WithAuxiliary(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.main = nn.Linear(24, 2)
        self.auxiliary = nn.Linear(24, 8)

    def forward(self, x, rebuild):
        h = self.trunk(x)
        return self.main(h), self.auxiliary(h) if rebuild else None


def objective(model, x, y, rebuild):
    logits, copy = model(x, rebuild)
    loss = F.cross_entropy(logits, y)
    return loss if copy is None else loss + 0.3 * F.mse_loss(copy, x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(740)
    model = DDP(WithAuxiliary(), find_unused_parameters=True)
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    x = torch.randn(96, 8)
    y = (x[:, ::2].sum(1) > x[:, 1::2].sum(1)).long()
    g = torch.Generator().manual_seed(741)
    step = 0
    while step < 12:
        for rows in torch.randperm(96, generator=g).split(24):
            rows = rows[rank::world]
            opt.zero_grad(set_to_none=True)
            objective(model, x[rows], y[rows], rebuild=step % 2 == 0).backward()
            opt.step()
            step += 1
    dist.destroy_process_group()


main()
