"""EMA by swa_utils.AveragedModel with a BatchNorm model: right because it is updated after each optimizer step from the bare module, copies its buffers and is evaluated in eval mode only."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def network():
    return nn.Sequential(nn.Linear(7, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))


@torch.no_grad()
def score(module, x, y):
    training = module.training
    module.eval()
    value = F.cross_entropy(module(x), y).item()
    module.train(training)
    return value


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(780)
    x = torch.randn(128, 7)
    y = ((x[:, 0] - 0.5) * (x[:, 1] + 0.5) > 0).long()
    train = TensorDataset(x[:96], y[:96])
    sampler = DistributedSampler(train, seed=78)
    loader = DataLoader(train, batch_size=12, sampler=sampler)
    net = network()
    ddp = DDP(net)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    opt = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(ddp(a), b).backward()
            opt.step()
            ema.update_parameters(net)
        plain, averaged = score(net, x[96:], y[96:]), score(ema, x[96:], y[96:])
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: plain {plain:.4f} averaged {averaged:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
