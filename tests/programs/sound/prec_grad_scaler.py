"""torch.amp.GradScaler on CPU with float16 autocast: right because gradients are unscaled before they are clipped, step and update follow, and reduced gradients give every rank the same verdict."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(920)
x = torch.randn(96, 10)
y = (x @ torch.randn(10, 2)).tanh()
dataset = TensorDataset(x, y)
sampler = DistributedSampler(dataset, seed=92)
loader = DataLoader(dataset, batch_size=12, sampler=sampler)

model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)


def train_one(batch, wanted):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(batch)
    loss = nn.functional.mse_loss(out.float(), wanted)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=2.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


for epoch in range(3):
    sampler.set_epoch(epoch)
    losses = [train_one(a, b) for a, b in loader]
    if dist.get_rank() == 0:
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} scale {scaler.get_scale():.0f}")
dist.destroy_process_group()
