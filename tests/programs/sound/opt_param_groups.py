"""Parameter groups with rates that fall with depth and no decay on biases and norms: right because every parameter lands in exactly one group, which is asserted."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def layerwise_groups(model, lr, factor, decay):
    blocks = list(model.children())
    groups = []
    for depth, block in enumerate(blocks):
        rate = lr * factor ** (len(blocks) - 1 - depth)
        named = list(block.named_parameters())
        matrices = [p for _, p in named if p.ndim >= 2]
        others = [p for _, p in named if p.ndim < 2]
        if matrices:
            groups.append({"params": matrices, "lr": rate, "weight_decay": decay})
        if others:
            groups.append({"params": others, "lr": rate, "weight_decay": 0.0})
    return groups


def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LayerNorm(o), nn.GELU())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(310)
    x = torch.randn(96, 6)
    y = (x[:, :2].norm(dim=1) > x[:, 2:4].norm(dim=1)).long()
    model = nn.Sequential(block(6, 16), block(16, 16), nn.Linear(16, 2))
    groups = layerwise_groups(model, lr=0.01, factor=0.7, decay=0.05)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))
    ddp = DDP(model)
    opt = torch.optim.AdamW(groups)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=16, sampler=sampler)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(ddp(a), b).backward()
            opt.step()
    dist.destroy_process_group()


main()
