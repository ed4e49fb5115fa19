"""Fine-tuning of a magnitude-pruned network: right because pruned weights start at zero and their gradients are masked by tensor hooks, which being linear commute with DDP's averaging."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def prune_(module, share=0.5):
    """Zeroes the smallest weights and registers a mask on each one's gradient."""
    masks = {}
    for name, p in module.named_parameters():
        if p.ndim < 2:
            continue
        limit = p.detach().abs().flatten().kthvalue(int(p.numel() * share)).values
        mask = (p.detach().abs() > limit).to(p.dtype)
        with torch.no_grad():
            p.mul_(mask)
        p.register_hook(lambda grad, mask=mask: grad * mask)
        masks[name] = mask
    return masks


def make_batches(epoch, rank, world):
    g = torch.Generator().manual_seed(130)
    x = torch.randn(128, 10, generator=g)
    y = torch.relu(x[:, :2]).sum(dim=1, keepdim=True)
    g.manual_seed(1000 + epoch)
    rows = torch.randperm(128, generator=g)[rank::world]
    return [(x[r], y[r]) for r in rows.split(16)]


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(131)
    base = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 1))
    masks = prune_(base)
    model = DDP(base)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        for x, y in make_batches(epoch, rank, world):
            opt.zero_grad()
            F.huber_loss(model(x), y).backward()
            opt.step()
    for name, p in base.named_parameters():
        if name in masks:
            assert bool((p[masks[name] == 0] == 0).all())
    dist.destroy_process_group()
