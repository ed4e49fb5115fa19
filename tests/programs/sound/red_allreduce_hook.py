"""DDP's own reduction or (--other) the same by allreduce_hook as a communication hook: right because the hook sums the buckets and divides by the world size just as DDP does."""
# ways: equal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def wrapped_model(hooked):
    torch.manual_seed(960)
    net = nn.Sequential(nn.Linear(9, 24), nn.Sigmoid(), nn.Linear(24, 2))
    ddp = DDP(net)
    if hooked:
        ddp.register_comm_hook(dist.group.WORLD, allreduce_hook)
    return ddp


def dataset():
    g = torch.Generator().manual_seed(961)
    x = torch.rand(120, 9, generator=g)
    return TensorDataset(x, torch.stack([x.amax(1), x.amin(1)], 1))


def main(argv):
    dist.init_process_group("gloo")
    ddp = wrapped_model("--other" in argv)
    ds = dataset()
    sampler = DistributedSampler(ds, seed=96)
    loader = DataLoader(ds, batch_size=15, sampler=sampler)
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(ddp(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
