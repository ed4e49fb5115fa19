"""Accumulation whose window grows from 1 to 2 to 4 batches as the epochs pass: right because every window divides by its own length and each epoch holds a whole number of windows."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PLAN = {0: 1, 1: 2, 2: 4}


def loss_of(net, batch, parts):
    x, y = batch
    return nn.functional.binary_cross_entropy_with_logits(net(x).squeeze(1), y) / parts


def step(net, opt, window):
    *early, final = window
    with net.no_sync():
        for batch in early:
            loss_of(net, batch, len(window)).backward()
    loss = loss_of(net, final, len(window))
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach() * len(window)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(31)
    x = torch.randn(128, 6)
    y = (x.norm(dim=1) > 2.3).float()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds, shuffle=True, drop_last=True)
    loader = DataLoader(ds, batch_size=8, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for epoch, length in PLAN.items():
        sampler.set_epoch(epoch)
        window = []
        for batch in loader:
            window.append(batch)
            if len(window) == length:
                last_loss = step(net, opt, window)
                window = []
        assert not window
        if dist.get_rank() == 0:
            print(epoch, length, last_loss.item())


main()
