"""Gradual unfreezing with add_param_group: right because DDP is made anew each time the set of trainable parameters changes and newly freed layers join the optimizer exactly once."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def set_trainable(layer, flag):
    for p in layer.parameters():
        p.requires_grad_(flag)


def run_stage(net, opt, x, y, seed, rank, world):
    ddp = DDP(net)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for rows in order.split(32):
        rows = rows[rank::world]
        opt.zero_grad()
        nn.functional.cross_entropy(ddp(x[rows]), y[rows]).backward()
        opt.step()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(330)
    layers = [nn.Linear(8, 20), nn.Linear(20, 20), nn.Linear(20, 3)]
    net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    x = torch.randn(128, 8)
    y = x[:, 2:5].argmax(dim=1)

    for layer in layers[:-1]:
        set_trainable(layer, False)
    opt = torch.optim.SGD(layers[-1].parameters(), lr=0.1, momentum=0.9)
    run_stage(net, opt, x, y, seed=0, rank=rank, world=world)
    for stage, (layer, rate) in enumerate([(layers[1], 0.05), (layers[0], 0.025)], start=1):
        set_trainable(layer, True)
        opt.add_param_group({"params": list(layer.parameters()), "lr": rate})
        run_stage(net, opt, x, y, seed=stage, rank=rank, world=world)
    if rank == 0:
        print([group["lr"] for group in opt.param_groups])
    dist.destroy_process_group()


main()
