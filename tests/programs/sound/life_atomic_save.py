"""Checkpoints written by rank 0 alone, atomically, and read back by all: right because the file is replaced in one move, a barrier comes before the others read and the folder is rank 0's to remove."""
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def save_atomically(obj, path):
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(handle, "wb") as f:
        torch.save(obj, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(partial, path)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = os.path.join(folder[0], "last.pt")
    torch.manual_seed(1100)
    ddp = DDP(nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3)))
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    x = torch.randn(96, 6)
    y = x[:, 3:].argmax(1)
    for epoch in range(3):
        order = torch.randperm(96, generator=torch.Generator().manual_seed(epoch))
        for rows in order[rank::world].split(12):
            opt.zero_grad()
            F.cross_entropy(ddp(x[rows]), y[rows]).backward()
            opt.step()
        if rank == 0:
            save_atomically({"model": ddp.module.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, path)
    dist.barrier()
    saved = torch.load(path, map_location="cpu")
    assert saved["epoch"] == 2
    assert all(torch.equal(v, ddp.module.state_dict()[k]) for k, v in saved["model"].items())
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    dist.destroy_process_group()


main()
