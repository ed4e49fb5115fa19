"""Resume with a GradScaler: right because scale and growth count are saved beside weights and momentum, and each step's batch is drawn by a generator seeded with the step."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, SAVE_BEFORE = 14, 6

parser = argparse.ArgumentParser()
parser.add_argument("--state")
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1020)
x = torch.randn(128, 8)
y = (x[:, 0] * 2 - x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
ddp = DDP(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=4)


def snapshot(step):
    return {"step": step, "net": net.state_dict(), "opt": opt.state_dict(), "scaler": scaler.state_dict()}


def restore(state):
    net.load_state_dict(state["net"])
    opt.load_state_dict(state["opt"])
    scaler.load_state_dict(state["scaler"])
    return state["step"]


def train_step(step):
    g = torch.Generator().manual_seed(102_000 + step)
    rows = torch.randperm(128, generator=g)[:32].chunk(world)[rank]
    with torch.autocast("cpu", dtype=torch.float16):
        logits = ddp(x[rows])
    loss = nn.functional.cross_entropy(logits.float(), y[rows])
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()


start = restore(torch.load(args.state)) if args.resume else 0
for step in range(start, STEPS):
    if step == SAVE_BEFORE and args.state and not args.resume and rank == 0:
        torch.save(snapshot(step), args.state)
    train_step(step)
dist.destroy_process_group()
