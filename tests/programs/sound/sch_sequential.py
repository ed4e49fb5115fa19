"""SequentialLR of a linear warm-up and a cosine decay, stepped once per update: right because the milestone and T_max add up to the number of updates and the step follows optimizer.step."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, WARMUP = 3, 3


def make_schedule(opt, total):
    warm = LinearLR(opt, start_factor=0.25, total_iters=WARMUP)
    cosine = CosineAnnealingLR(opt, T_max=total - WARMUP, eta_min=1e-4)
    return SequentialLR(opt, [warm, cosine], milestones=[WARMUP])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(400)
    x = torch.randn(80, 7)
    y = (x[:, 0] - x[:, 1] > 0).long()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds, seed=400)
    loader = DataLoader(ds, batch_size=10, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(7, 28), nn.ReLU(), nn.Linear(28, 2)))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    schedule = make_schedule(opt, EPOCHS * len(loader))
    rates = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
            rates.append(schedule.get_last_lr()[0])
            schedule.step()
    if dist.get_rank() == 0:
        print(" ".join(f"{r:.4f}" for r in rates))
    dist.destroy_process_group()


main()
