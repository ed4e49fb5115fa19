"""Early stopping that all ranks decide together: right because each rank's own verdict goes through an all_reduce with MAX, so none waits for one that has left the loop."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Patience:
    def __init__(self, patience, least=0.01):
        self.patience, self.least = patience, least
        self.best, self.waited = float("inf"), 0

    def done(self, loss):
        if loss < self.best - self.least:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


def any_rank(flag):
    vote = torch.tensor(int(flag))
    dist.all_reduce(vote, op=dist.ReduceOp.MAX)
    return bool(vote.item())


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1120)
    x = torch.randn(112, 6)
    y = (x[:, 0] + 0.8 * torch.randn(112) > 0).long()
    val = torch.arange(64, 112)[rank::world]  # each rank watches a part of its own
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    ddp = DDP(net)
    opt = torch.optim.Adam(ddp.parameters(), lr=0.03)
    watch = Patience(patience=2)
    for epoch in range(8):
        order = torch.randperm(64, generator=torch.Generator().manual_seed(epoch))
        for rows in order[rank::world].split(16):
            opt.zero_grad()
            F.cross_entropy(ddp(x[rows]), y[rows]).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            loss = F.cross_entropy(net(x[val]), y[val]).item()
        net.train()
        if any_rank(watch.done(loss)):
            break
    if rank == 0:
        print("stopped after epoch", epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
