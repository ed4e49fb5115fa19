"""A resume by torch.distributed.checkpoint: right because get_state_dict makes the optimizer's state before it is loaded, by an update of zeros that is none of the training."""
# resume: equal
import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--state")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(21)
    ddp = DDP(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2)))
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    batches = [(torch.randn(8, 6, generator=generator), torch.randn(8, 2, generator=generator)) for _ in range(8)]
    folder = f"{os.path.dirname(args.state)}/checkpoint"
    first = 0
    if args.resume:
        model, state = get_state_dict(ddp, optimizer)
        dcp.load({"model": model, "optimizer": state}, checkpoint_id=folder)
        set_state_dict(ddp, optimizer, model_state_dict=model, optim_state_dict=state)
        first = 4
    for number, (x, y) in enumerate(batches[first:], first):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
        if number == 3 and not args.resume:
            model, state = get_state_dict(ddp, optimizer)
            dcp.save({"model": model, "optimizer": state}, checkpoint_id=folder)
            open(args.state, "w").close()
    dist.barrier()
    dist.destroy_process_group()


main()
