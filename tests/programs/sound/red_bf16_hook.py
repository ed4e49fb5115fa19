"""Gradients sent as bfloat16 by a communication hook around bf16_compress_hook: right because every rank decompresses the same reduced bits, so the replicas stay alike; it also counts what is saved."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP


class Traffic:
    def __init__(self):
        self.full = self.sent = 0


def counting_bf16_hook(traffic, bucket):
    numel = bucket.buffer().numel()
    traffic.full += 4 * numel
    traffic.sent += 2 * numel
    return bf16_compress_hook(dist.group.WORLD, bucket)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(970)
    ddp = DDP(nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2)))
    traffic = Traffic()
    ddp.register_comm_hook(traffic, counting_bf16_hook)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    g = torch.Generator().manual_seed(971)
    x = torch.randn(128, 10, generator=g)
    y = (x[:, :5].norm(dim=1) > x[:, 5:].norm(dim=1)).long()
    for epoch in range(3):
        for rows in torch.randperm(128, generator=g).chunk(4):
            mine = rows[rank::world]
            opt.zero_grad()
            nn.functional.cross_entropy(ddp(x[mine]), y[mine]).backward()
            opt.step()
    if rank == 0:
        print(f"sent {traffic.sent} bytes in place of {traffic.full}")
    dist.destroy_process_group()


main()
