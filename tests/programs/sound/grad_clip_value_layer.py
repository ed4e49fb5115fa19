"""Clipping by value for the biases and by norm layer by layer for the weights: right because it is done in place on reduced gradients, after backward and before step, on every rank alike."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def clip_by_layer(module, weight_norm=0.5, bias_value=0.1):
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.utils.clip_grad_norm_([layer.weight], weight_norm)
            nn.utils.clip_grad_value_([layer.bias], bias_value)


def build(seed):
    torch.manual_seed(seed)
    return DDP(nn.Sequential(nn.Linear(9, 20), nn.ELU(), nn.Linear(20, 20), nn.ELU(), nn.Linear(20, 4)))


def dataset():
    g = torch.Generator().manual_seed(77)
    x = torch.randn(112, 9, generator=g)
    return TensorDataset(x, x[:, :4].argmax(dim=1))


class Trainer:
    def __init__(self):
        self.net = build(6)
        self.data = dataset()
        self.sampler = DistributedSampler(self.data, seed=1)
        self.loader = DataLoader(self.data, batch_size=14, sampler=self.sampler)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.3)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.opt.zero_grad()
                self.criterion(self.net(x), y).backward()
                clip_by_layer(self.net)
                self.opt.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().fit(3)
    dist.destroy_process_group()
