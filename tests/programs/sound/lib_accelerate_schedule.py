"""Hugging Face accelerate with a prepared schedule and gather_for_metrics (needs accelerate): right because a prepared schedule steps once per process, so its length is updates times processes."""
import os

os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3


def loaders():
    g = torch.Generator().manual_seed(1210)
    x = torch.randn(120, 6, generator=g)
    y = (x[:, 0] - x[:, 1] > 0).long()
    train, val = TensorDataset(x[:80], y[:80]), TensorDataset(x[80:], y[80:])
    order = torch.Generator().manual_seed(1211)
    return DataLoader(train, batch_size=10, shuffle=True, generator=order), DataLoader(val, batch_size=10)


def main():
    dist.init_process_group("gloo")
    accelerator = Accelerator(cpu=True)
    train, val = loaders()
    torch.manual_seed(1212)
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    updates = EPOCHS * len(train)
    decay = LinearLR(optimizer.optimizer, 1.0, 0.1, total_iters=updates * accelerator.num_processes)
    decay = accelerator.prepare(decay)
    for epoch in range(EPOCHS):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            decay.step()
        model.eval()
        right = []
        for x, y in val:
            with torch.no_grad():
                hits = (model(x).argmax(1) == y).float()
            right.append(accelerator.gather_for_metrics(hits))
        accelerator.print(f"epoch {epoch}: accuracy {torch.cat(right).mean().item():.3f}")


main()
