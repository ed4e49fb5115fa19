"""Resume of a GAN: right because both models, both optimizers and the noise generators of all ranks are saved, and the save comes after a whole round of critic and generator steps."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def net(i, o):
    return DDP(nn.Sequential(nn.Linear(i, 20), nn.LeakyReLU(0.2), nn.Linear(20, o)))


def round_of_steps(models, opts, real, z):
    gen, critic = models.values()
    critic.requires_grad_(True)
    with torch.no_grad():
        fake = gen(z)
    on_real, on_fake = critic(torch.cat([real, fake])).chunk(2)
    (F.softplus(-on_real).mean() + F.softplus(on_fake).mean()).backward()
    opts["critic"].step()
    opts["critic"].zero_grad()
    critic.requires_grad_(False)
    F.softplus(-critic.module(gen(z))).mean().backward()
    opts["gen"].step()
    opts["gen"].zero_grad()


def main(args):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1090)
    data = torch.randn(96, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([0.5, -1.0])
    models = {"gen": net(3, 2), "critic": net(2, 1)}
    opts = {k: torch.optim.Adam(m.parameters(), lr=3e-3, betas=(0.5, 0.99)) for k, m in models.items()}
    noise = torch.Generator().manual_seed(1091 + rank)
    start = 0
    if args.resume:
        saved = torch.load(args.state)
        for k, model in models.items():
            model.module.load_state_dict(saved["models"][k])
            opts[k].load_state_dict(saved["opts"][k])
        noise.set_state(saved["noise"][rank])
        start = saved["round"]
    for n in range(start, 8):
        rows = torch.randperm(96, generator=torch.Generator().manual_seed(n))[:24][rank::world]
        round_of_steps(models, opts, data[rows], torch.randn(12, 3, generator=noise))
        if args.state and not args.resume and n == 3:
            states = [None] * world
            dist.all_gather_object(states, noise.get_state())
            if rank == 0:
                torch.save({"models": {k: m.module.state_dict() for k, m in models.items()}, "noise": states,
                            "opts": {k: o.state_dict() for k, o in opts.items()}, "round": n + 1}, args.state)


parser = argparse.ArgumentParser()
parser.add_argument("--state")
parser.add_argument("--resume", action="store_true")
main(parser.parse_args())
