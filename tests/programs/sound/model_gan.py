"""A GAN of two DDP models with three critic steps to one generator step: right because fakes for the critic are made without gradients and the critic is frozen while the generator's loss goes through it."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

N_CRITIC, LATENT = 3, 4


def mlp(*sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def real_batches(rank, world, size=8):
    g = torch.Generator().manual_seed(810)
    angle = torch.rand(128, generator=g) * 6.2832
    ring = torch.stack([angle.cos(), angle.sin()], 1)
    while True:
        for rows in torch.randperm(128, generator=g)[rank::world].split(size):
            yield ring[rows]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(811)
    gen, critic = DDP(mlp(LATENT, 24, 2)), DDP(mlp(2, 24, 1))
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    noise = torch.Generator().manual_seed(812 + rank)
    reals = real_batches(rank, world)
    for _ in range(4):
        critic.requires_grad_(True)
        for _ in range(N_CRITIC):
            real = next(reals)
            with torch.no_grad():
                fake = gen(torch.randn(len(real), LATENT, generator=noise))
            on_real, on_fake = critic(torch.cat([real, fake])).chunk(2)
            opt_c.zero_grad()
            (F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()).backward()
            opt_c.step()
        critic.requires_grad_(False)
        opt_g.zero_grad()
        loss_g = -critic.module(gen(torch.randn(8, LATENT, generator=noise))).mean()
        loss_g.backward()
        opt_g.step()
    dist.destroy_process_group()


main()
