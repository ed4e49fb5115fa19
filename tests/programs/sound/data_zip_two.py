"""Two loaders zipped, labelled and unlabelled, for a consistency loss: right because both have the same number of batches, both samplers get the epoch, and both forward passes go into one backward."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def loader_of(ds, size, seed):
    sampler = DistributedSampler(ds, seed=seed, drop_last=True)
    return DataLoader(ds, batch_size=size, sampler=sampler, drop_last=True)


def consistency(logits_a, logits_b):
    return F.mse_loss(logits_a.softmax(1), logits_b.softmax(1).detach())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    g = torch.Generator().manual_seed(560)
    known = torch.randn(40, 6, generator=g)
    unknown = torch.randn(80, 6, generator=g)
    labelled = loader_of(TensorDataset(known, (known[:, 0] > 0).long()), 5, seed=1)
    unlabelled = loader_of(TensorDataset(unknown), 10, seed=2)
    assert len(labelled) == len(unlabelled)
    torch.manual_seed(561)
    net = DDP(nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2)))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    jitter = torch.Generator().manual_seed(900 + rank)
    for epoch in range(3):
        for loader in (labelled, unlabelled):
            loader.sampler.set_epoch(epoch)
        for (x, y), (u,) in zip(labelled, unlabelled, strict=True):
            noisy = u + 0.1 * torch.randn(u.shape, generator=jitter)
            logits = net(torch.cat([x, u, noisy]))
            on_x, on_u, on_noisy = logits.split([len(x), len(u), len(u)])
            loss = F.cross_entropy(on_x, y) + 0.5 * consistency(on_noisy, on_u)
            opt.zero_grad()
            loss.backward()
            opt.step()
    dist.destroy_process_group()


main()
