"""Truncated back-propagation through time: right because the hidden state goes from window to window detached, starts afresh with each pass over the series, and targets are the inputs one step on."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WINDOW = 8


class Forecaster(nn.Module):
    def __init__(self, width=14):
        super().__init__()
        self.rnn = nn.GRU(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x, hidden=None):
        h, hidden = self.rnn(x, hidden)
        return self.out(h), hidden


def series(n=12, length=65):
    g = torch.Generator().manual_seed(890)
    speed = 0.2 + 0.3 * torch.rand(n, 1, generator=g)
    phase = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(speed * torch.arange(length) + phase).unsqueeze(-1)


def one_pass(ddp, opt, data):
    hidden = None
    for start in range(0, data.shape[1] - 1, WINDOW):
        x = data[:, start:start + WINDOW]
        y = data[:, start + 1:start + WINDOW + 1]
        guess, hidden = ddp(x, hidden)
        hidden = hidden.detach()
        opt.zero_grad()
        loss = nn.functional.mse_loss(guess, y)
        loss.backward()
        nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(891)
    ddp = DDP(Forecaster())
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    mine = series()[rank::world]
    for n in range(2):
        last = one_pass(ddp, opt, mine)
        if rank == 0:
            print(f"pass {n}: {last:.4f}")
    dist.destroy_process_group()


main()
