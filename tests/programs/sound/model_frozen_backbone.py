"""A frozen backbone with BatchNorm under a trained head: right because it is frozen before DDP, kept in eval mode by an overridden train() and left out of the optimizer."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Transfer(nn.Module):
    def __init__(self, backbone, features, classes):
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.head = nn.Linear(features, classes)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            h = self.backbone(x)
        return self.head(h)


def given_backbone():
    """Stands for a backbone that was trained elsewhere."""
    torch.manual_seed(860)
    net = nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten())
    with torch.no_grad():
        for _ in range(5):
            net(torch.randn(32, 1, 12))  # fills the running statistics
    return net


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(861)
    y = torch.arange(96) % 2
    x = torch.randn(96, 1, 12) + y.view(-1, 1, 1) * torch.linspace(-1, 1, 12)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=12, sampler=sampler)
    model = DDP(Transfer(given_backbone(), features=64, classes=2))
    opt = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for a, b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
    dist.destroy_process_group()


main()
