"""ReduceLROnPlateau on an all-reduced validation loss: right because all ranks give the schedule the same number, so they cut their rates together."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


@torch.no_grad()
def validation_loss(ddp, x, y):
    """Each rank takes every world-th row; the sums are added up."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ddp.eval()
    out = ddp.module(x[rank::world])
    stats = torch.stack([F.mse_loss(out, y[rank::world], reduction="sum"), torch.tensor(float(out.numel()))])
    dist.all_reduce(stats)
    ddp.train()
    return (stats[0] / stats[1]).item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(440)
    x = torch.randn(100, 6)
    y = x[:, :1] * 2 + 0.5 * torch.randn(100, 1)
    train, val = random_split(TensorDataset(x, y), [64, 36], generator=torch.Generator().manual_seed(1))
    val_x, val_y = (t[val.indices] for t in (x, y))
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=16, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)))
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", factor=0.3, patience=0, threshold=0.02)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            F.mse_loss(net(a), b).backward()
            opt.step()
        val_loss = validation_loss(net, val_x, val_y)
        plateau.step(val_loss)
        if dist.get_rank() == 0:
            print(epoch, round(val_loss, 4), opt.param_groups[0]["lr"])
    dist.destroy_process_group()


main()
