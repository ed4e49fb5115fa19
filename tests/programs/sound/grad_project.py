"""Two tasks whose conflicting gradients are projected on each other (PCGrad): right because each task's gradient is averaged over the ranks before the projection, so all ranks project alike."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def mean_over_ranks(vector):
    dist.all_reduce(vector)
    return vector / dist.get_world_size()


def task_gradient(loss, params):
    grads = torch.autograd.grad(loss, params, retain_graph=True)
    return mean_over_ranks(torch.cat([g.reshape(-1) for g in grads]))


def without_conflict(g, other):
    dot = torch.dot(g, other)
    return g - dot / other.dot(other).clamp_min(1e-12) * other if dot < 0 else g


def put_grads(params, vector):
    for p, piece in zip(params, vector.split([p.numel() for p in params])):
        p.grad = piece.view_as(p).clone()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(150)
    net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
    flat = parameters_to_vector(net.parameters()).detach()
    dist.broadcast(flat, src=0)
    vector_to_parameters(flat, net.parameters())
    params = list(net.parameters())
    opt = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    g = torch.Generator().manual_seed(151)
    x = torch.randn(112, 6, generator=g)
    first, second = x[:, 0] - x[:, 1], (x[:, 1] > 0).float()
    for epoch in range(2):
        for rows in torch.randperm(112, generator=g)[rank::world].split(8):
            out = net(x[rows])
            a = task_gradient(F.mse_loss(out[:, 0], first[rows]), params)
            b = task_gradient(F.binary_cross_entropy_with_logits(out[:, 1], second[rows]), params)
            put_grads(params, without_conflict(a, b) + without_conflict(b, a))
            opt.step()
    dist.destroy_process_group()


main()
