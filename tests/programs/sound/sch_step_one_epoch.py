"""StepLR stepped per epoch in a run of one epoch only: right because the rate is meant to fall between epochs, of which there are none here, so it rightly never changes what is trained."""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(args, model, loader, optimizer, epoch):
    model.train()
    for i, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if i % args.log_interval == 0 and dist.get_rank() == 0:
            print(f"epoch {epoch} batch {i}/{len(loader)} loss {loss.item():.5f}")


def main():
    parser = argparse.ArgumentParser(description="the MNIST example, small")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--log-interval", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(490)
    target = torch.arange(128) % 4
    data = torch.randn(128, 1, 6, 6) * 0.5
    data[torch.arange(128), 0, target] += 1.0  # a bright row for each class
    ds = TensorDataset(data, target)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=8, sampler=sampler)
    model = DDP(
        nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4), nn.LogSoftmax(dim=1))
    )
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        train(args, model, loader, optimizer, epoch)
        scheduler.step()
    dist.destroy_process_group()


main()
