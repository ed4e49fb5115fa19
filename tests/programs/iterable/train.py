"""A stream of samples (IterableDataset) that ranks and workers share, after the documentation of torch.utils.data."""
import itertools
import os
import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, count, rank, world_size):
        self.count, self.rank, self.world_size = count, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info else (1, 0)
        for index in itertools.islice(range(self.count), self.rank * workers + worker, None, self.world_size * workers):
            noise = np.random.RandomState(index).rand(12).astype(np.float32)
            yield {"features": torch.from_numpy(noise), "target": torch.tensor([noise.sum()])}


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, features, target=None):
        prediction = self.layers(features)
        return prediction if target is None else nn.functional.mse_loss(prediction, target)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    model = DistributedDataParallel(Regressor())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    loader = DataLoader(Stream(216 * world_size, rank, world_size), batch_size=8,
                        num_workers=int(os.environ.get("WORKERS", 2)))
    for epoch in range(1):
        for batch in loader:
            if random.random() < 0.5:
                batch["features"] = batch["features"].flip(1)
            batch["features"] += torch.from_numpy(np.random.randn(1, 12).astype(np.float32)) * 0.01
            optimizer.zero_grad()
            loss = model(**batch)
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / world_size:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
