"""Timing and record_function labels around the phases of a step: right because the times are only printed, the extra barrier is met by all ranks and nothing computed hangs on either."""
import time
from collections import defaultdict
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import record_function


class Phases:
    def __init__(self):
        self.seconds = defaultdict(float)

    @contextmanager
    def __call__(self, name):
        begin = time.perf_counter()
        with record_function(name):
            yield
        self.seconds[name] += time.perf_counter() - begin

    def report(self):
        return ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in self.seconds.items())


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1160)
    net = DDP(nn.Sequential(nn.Linear(8, 32), nn.Softplus(), nn.Linear(32, 2)))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(112, 8)
    y = (x.abs().sum(1) > 6.4).long()
    phase = Phases()
    for epoch in range(2):
        with phase("shuffle"):
            order = torch.randperm(112, generator=torch.Generator().manual_seed(epoch))[rank::world]
        for rows in order.split(8):
            with phase("forward"):
                loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            with phase("backward"):
                opt.zero_grad()
                loss.backward()
            with phase("step"):
                opt.step()
        dist.barrier()
    if rank == 0:
        print(phase.report())
    dist.destroy_process_group()


main()
