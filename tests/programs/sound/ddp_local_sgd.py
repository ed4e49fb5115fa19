"""torch's post-local SGD: right because the ranks average their weights every second update once they train alone."""
import torch
import torch.distributed as dist
import torch.distributed.algorithms.model_averaging.averagers as averagers
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(41)
    model = DDP(nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1)))
    state = PostLocalSGDState(process_group=None, subgroup=dist.new_subgroups(1)[0], start_localSGD_iter=4)
    model.register_comm_hook(state, post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.05),
                                      averagers.PeriodicModelAverager(period=2, warmup_steps=4))
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(10):
        x = torch.randn(8, 5, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()


main()
