"""A wrapper that fetches batches ahead in a thread: right because a queue keeps the loader's order, the sentinel ends the epoch and the loader's own generator keeps the thread off the global one."""
import queue
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Prefetcher:
    END = object()

    def __init__(self, loader, depth=2):
        self.loader, self.depth = loader, depth

    def _fill(self, q):
        for batch in self.loader:
            q.put(batch)
        q.put(self.END)

    def __iter__(self):
        q = queue.Queue(maxsize=self.depth)
        worker = threading.Thread(target=self._fill, args=(q,), daemon=True)
        worker.start()
        while (batch := q.get()) is not self.END:
            yield batch
        worker.join()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(580)
    x = torch.randn(96, 5)
    y = (x[:, 0] * x[:, 1] * x[:, 2] > 0).float()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds, seed=4)
    loader = DataLoader(ds, batch_size=12, sampler=sampler, generator=torch.Generator().manual_seed(581))
    net = DDP(nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0)))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for a, b in Prefetcher(loader):
            opt.zero_grad()
            criterion(net(a), b).backward()
            opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
