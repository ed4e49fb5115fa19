"""Evaluation over the training and a validation loader after each epoch: right because it runs in eval mode without gradients, sums over all ranks with no padding twins, and goes back to train mode."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def eval_loader(ds, size=16):
    mine = range(dist.get_rank(), len(ds), dist.get_world_size())
    return DataLoader(Subset(ds, mine), batch_size=size)


@torch.no_grad()
def evaluate(module, loader):
    was_training = module.training
    module.eval()
    sums = torch.zeros(3)
    for x, y in loader:
        logits = module(x)
        sums += torch.stack([
            F.cross_entropy(logits, y, reduction="sum"),
            (logits.argmax(1) == y).sum().float(),
            torch.tensor(float(len(y))),
        ])
    module.train(was_training)
    dist.all_reduce(sums)
    return (sums[0] / sums[2]).item(), (sums[1] / sums[2]).item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(610)
    x = torch.randn(128, 8)
    y = x[:, :3].abs().argmax(1)
    train, val = TensorDataset(x[:88], y[:88]), TensorDataset(x[88:], y[88:])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=11, sampler=sampler)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
    ddp = DDP(net)
    torch.manual_seed(611 + dist.get_rank())  # dropout differs between ranks
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(ddp(a), b).backward()
            opt.step()
        on_train, on_val = evaluate(net, eval_loader(train)), evaluate(net, eval_loader(val))
        if dist.get_rank() == 0:
            print(epoch, "train %.4f %.3f" % on_train, "val %.4f %.3f" % on_val)
    dist.destroy_process_group()


main()
