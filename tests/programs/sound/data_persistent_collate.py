"""Persistent workers and a collate function that pads and masks: right because the sampler lives in the main process, so set_epoch works with workers that stay, and the loss counts real steps only."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Walks(Dataset):
    def __init__(self, n=64):
        g = torch.Generator().manual_seed(630)
        self.walks = [torch.randn(4 + i % 5, 2, generator=g).cumsum(0) for i in range(n)]

    def __len__(self):
        return len(self.walks)

    def __getitem__(self, i):
        return self.walks[i]


def collate(walks):
    ones = [torch.ones(len(w)) for w in walks]
    return pad_sequence(walks, batch_first=True), pad_sequence(ones, batch_first=True)


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 10, batch_first=True)
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(631)
    ds = Walks()
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=8, sampler=sampler, collate_fn=collate, num_workers=1,
                        persistent_workers=True, multiprocessing_context="fork")
    net = DDP(Smoother())
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, mask in loader:
            steps = mask[:, 1:].sum()
            dist.all_reduce(steps)  # the divisor is the real steps of all ranks
            error = (net(x[:, :-1]) - x[:, 1:]).square().sum(-1)
            opt.zero_grad()
            ((error * mask[:, 1:]).sum() * dist.get_world_size() / steps).backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
