"""Two tasks that take turns on a shared trunk: right because all ranks train the same task at each step, unused heads are allowed for, and each head has an optimizer which steps only in its turn."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU())
        self.heads = nn.ModuleDict({"kind": nn.Linear(16, 3), "size": nn.Linear(16, 1)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


LOSSES = {"kind": F.cross_entropy, "size": lambda out, y: F.mse_loss(out.squeeze(1), y)}


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(840)
    ddp = DDP(MultiTask(), find_unused_parameters=True)
    module = ddp.module
    trunk_opt = torch.optim.Adam(module.trunk.parameters(), lr=5e-3)
    head_opts = {name: torch.optim.SGD(head.parameters(), lr=0.05) for name, head in module.heads.items()}
    x = torch.randn(96, 6)
    targets = {"kind": x[:, :3].argmax(dim=1), "size": x.norm(dim=1)}
    order = torch.Generator().manual_seed(841)
    turn = 0
    for epoch in range(3):
        for rows in torch.randperm(96, generator=order).split(24):
            rows = rows[rank::world]
            task = ("kind", "size")[turn % 2]
            loss = LOSSES[task](ddp(x[rows], task), targets[task][rows])
            loss.backward()
            for opt in (trunk_opt, head_opts[task]):
                opt.step()
            ddp.zero_grad(set_to_none=True)
            turn += 1
    dist.destroy_process_group()


main()
