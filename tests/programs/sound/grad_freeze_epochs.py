"""A backbone that is held for the first epoch and trained afterwards: right because its gradients are dropped (set to None) before the step while it is held, so the optimizer leaves it and its state alone."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

HELD_EPOCHS = 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(7, 24), nn.Tanh())
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(140)
    x = torch.randn(96, 7)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=12, sampler=sampler)
    net = DDP(Model())
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        held = epoch < HELD_EPOCHS
        for features, labels in loader:
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(net(features), labels)
            loss.backward()
            if held:
                for p in net.module.backbone.parameters():
                    p.grad = None
            opt.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} held={held} loss={loss.item():.4f}")
    dist.destroy_process_group()


main()
