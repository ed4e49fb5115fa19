"""A loss scaler of one's own with growth, backoff and skipped steps under float16 autocast: right because gradients are unscaled before the step and all ranks agree by all_reduce on whether to skip it."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class LossScaler:
    def __init__(self, scale=2.0 ** 24, growth_every=3):
        self.scale, self.growth_every, self.good = scale, growth_every, 0

    def backward(self, loss):
        (loss * self.scale).backward()

    @torch.no_grad()
    def step(self, optimizer, params):
        grads = [p.grad for p in params]
        finite = torch.tensor(float(all(g.isfinite().all() for g in grads)))
        dist.all_reduce(finite, op=dist.ReduceOp.MIN)
        if finite.item() == 0.0:
            self.scale, self.good = self.scale / 16, 0
            return False
        for g in grads:
            g.div_(self.scale)
        optimizer.step()
        self.good += 1
        if self.good == self.growth_every:
            self.scale, self.good = self.scale * 2, 0
        return True


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(110)
    net = DDP(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = LossScaler()
    g = torch.Generator().manual_seed(111)
    x = torch.randn(128, 8, generator=g)
    y = x[:, :3].argmax(dim=1)
    done = 0
    while done < 10:
        rows = torch.randperm(128, generator=g)[:32][rank::world]
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(x[rows])
        loss = nn.functional.cross_entropy(logits.float(), y[rows])
        opt.zero_grad()
        scaler.backward(loss)
        done += scaler.step(opt, list(net.parameters()))
    dist.destroy_process_group()


main()
