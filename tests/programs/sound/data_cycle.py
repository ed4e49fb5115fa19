"""An infinite cycling loader and a loop over steps instead of epochs: right because the cycle counts its passes and sets the sampler's epoch at each, and the number of steps ends the run."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def forever(loader):
    epoch = 0
    while True:
        loader.sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


class Steps:
    """An iterator of (number, batch) which stops by itself."""

    def __init__(self, loader, steps):
        self.source, self.steps = forever(loader), steps

    def __iter__(self):
        for number in range(self.steps):
            yield number, next(self.source)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(570)
    x = torch.randn(90, 7)
    y = x.cumsum(dim=1)[:, -2:]
    ds = TensorDataset(x, y)
    loader = DataLoader(ds, batch_size=9, sampler=DistributedSampler(ds, seed=57), pin_memory=False)
    net = DDP(nn.Sequential(nn.Linear(7, 16), nn.Softsign(), nn.Linear(16, 2)))
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    average = None
    for number, (a, b) in Steps(loader, 13):
        loss = nn.functional.smooth_l1_loss(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
        if number % 5 == 4 and dist.get_rank() == 0:
            print(f"step {number + 1}: smoothed loss {average:.4f}")
    dist.destroy_process_group()


main()
