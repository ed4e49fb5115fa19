"""A distributed batch sampler of one's own: right because all ranks shuffle alike by seed and epoch, cut the same batches and each takes its own part of every batch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class PartOfBatch(Sampler):
    def __init__(self, n, global_batch, seed=0):
        self.n, self.global_batch, self.seed, self.epoch = n, global_batch, seed, 0
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        assert global_batch % self.world == 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n // self.global_batch

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed * 7919 + self.epoch)
        order = torch.randperm(self.n, generator=g).tolist()
        for b in range(len(self)):
            batch = order[b * self.global_batch:(b + 1) * self.global_batch]
            yield batch[self.rank::self.world]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(520)
    x = torch.randn(120, 6)
    y = (x.max(dim=1).values - x.min(dim=1).values).unsqueeze(1)
    sampler = PartOfBatch(120, global_batch=30, seed=3)
    loader = DataLoader(TensorDataset(x, y), batch_sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for a, b in loader:
            opt.zero_grad(set_to_none=True)
            nn.functional.mse_loss(net(a), b).backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
