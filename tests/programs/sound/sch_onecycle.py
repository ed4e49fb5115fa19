"""OneCycleLR with momentum cycling, stepped after every batch: right because its total is epochs times steps_per_epoch and it is stepped exactly that often, but once less at the very end."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.manual_seed(420)

features = torch.randn(112, 10)
labels = (features[:, :5].sum(1) > features[:, 5:].sum(1)).float().unsqueeze(1)
train_set = TensorDataset(features, labels)
sampler = DistributedSampler(train_set, shuffle=True)
loader = DataLoader(train_set, batch_size=14, sampler=sampler)

net = DDP(nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1)))
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
epochs = 3
total = epochs * len(loader)
cycle = torch.optim.lr_scheduler.OneCycleLR(
    opt, max_lr=0.3, epochs=epochs, steps_per_epoch=len(loader), pct_start=0.4
)
criterion = nn.BCEWithLogitsLoss()
seen = 0
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += 1
        if seen < total:
            cycle.step()
    if dist.get_rank() == 0:
        group = opt.param_groups[0]
        print(f"epoch {epoch} lr {group['lr']:.5f} momentum {group['momentum']:.3f}")
dist.destroy_process_group()
