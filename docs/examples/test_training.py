"""Tests of a training with the pytest plugin of lockstep: pytest test_training.py"""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PROMISES = {"data": {"samples": 64}, "sampler": {"kind": "distributed"}, "batch": {"global": 16},
            "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}, "schedule": {"kind": "constant"}, "steps": 8}


def train(lr=0.1, global_batch=16, epochs=2):
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(64, 10), torch.rand(64, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=global_batch // dist.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


@pytest.mark.lockstep(world_size=2, promises=PROMISES)
def test_one_training(lockstep):
    lockstep.check(["ranks_agree", "reduction", "covers", "ledger"], lockstep.variant(train))


@pytest.mark.lockstep(promises=PROMISES)
def test_two_ranks_train_what_one_trains(lockstep):
    lockstep.check("rounding", lockstep.variant(train, world_size=1), lockstep.variant(train, world_size=2))
