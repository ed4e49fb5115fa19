"""Resume of an engine with its own data stream: right because the stream's generator state and what is left of its pass are saved with the rest, so the same batches follow."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Engine:
    PARTS = ("net", "opt")

    def __init__(self, size=28):
        torch.manual_seed(1080)
        self.x = torch.rand(90, 5)
        self.net = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 1))
        self.ddp = DDP(self.net)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=0.01)
        self.rng = torch.Generator().manual_seed(1081)  # the same on all ranks
        self.left, self.size, self.steps = torch.empty(0, dtype=torch.long), size, 0

    def next_rows(self):
        if len(self.left) < self.size:  # the rest of one pass goes before the next
            self.left = torch.cat([self.left, torch.randperm(90, generator=self.rng)])
        rows, self.left = self.left[: self.size], self.left[self.size:]
        return self.x[rows[dist.get_rank()::dist.get_world_size()]]

    def run(self, until):
        while self.steps < until:
            x = self.next_rows()
            self.opt.zero_grad()
            nn.functional.mse_loss(self.ddp(x), (x[:, :1] - x[:, 1:2]).abs()).backward()
            self.opt.step()
            self.steps += 1

    def save(self, path):
        if dist.get_rank() == 0:
            saved = {k: getattr(self, k).state_dict() for k in self.PARTS}
            torch.save({**saved, "rng": self.rng.get_state(), "left": self.left.clone(), "steps": self.steps}, path)
        dist.barrier()

    def load(self, path):
        saved = torch.load(path)
        for k in self.PARTS:
            getattr(self, k).load_state_dict(saved[k])
        self.rng.set_state(saved["rng"])
        self.left, self.steps = saved["left"], saved["steps"]


parser = argparse.ArgumentParser()
for name, action in (("--state", "store"), ("--resume", "store_true")):
    parser.add_argument(name, action=action)
args = parser.parse_args()
dist.init_process_group("gloo")
engine = Engine()
if args.resume:
    engine.load(args.state)
elif args.state:
    engine.run(until=5)
    engine.save(args.state)
engine.run(until=13)
