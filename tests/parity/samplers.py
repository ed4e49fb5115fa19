"""Loaders of the field: whose samples come in which order."""

import itertools
import math

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler


class ContiguousSampler(DistributedSampler):
    """The epoch's order and padding of DistributedSampler, but each rank takes one block of it (STMixer)."""

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        order = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(order[self.rank * self.num_samples : (self.rank + 1) * self.num_samples])


class ElasticDistributedSampler(DistributedSampler):
    """torchelastic/utils/data/elastic_distributed_sampler.py of pytorch/elastic."""

    def __init__(self, dataset, start_index):
        super().__init__(dataset)
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        left = len(self.dataset) - self.start_index
        indices = (torch.randperm(left, generator=generator) + self.start_index).tolist()
        indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])


class Stream(IterableDataset):
    """Samples in their order; each rank keeps every W-th, as many as every other rank, through a shuffle buffer."""

    def __init__(self, dataset, shard, buffer, seed):
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.ids = range(rank, len(dataset), world_size) if shard else range(len(dataset))
        self.ids = self.ids[: len(dataset) // world_size] if shard else self.ids
        self.dataset, self.buffer, self.seed, self.epoch = dataset, buffer, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        waiting = []

        def take():
            i = torch.randint(len(waiting), (1,), generator=generator).item() if len(waiting) > 1 else 0
            waiting[i], waiting[-1] = waiting[-1], waiting[i]
            return self.dataset[waiting.pop()]

        for i in self.ids:
            waiting.append(i)
            if len(waiting) >= self.buffer:
                yield take()
        while waiting:
            yield take()


def accelerated(spec, dataset, batch_size):
    """A DataLoader after the real Accelerator.prepare."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    seedable = spec["shuffle"] and "seed" in spec
    configuration = DataLoaderConfiguration(
        dispatch_batches=spec["kind"] == "dispatch",
        even_batches=spec.get("even_batches", True),
        use_seedable_sampler=seedable,
        data_seed=spec["seed"] if seedable else None,
    )
    loader = DataLoader(dataset, batch_size, shuffle=spec["shuffle"], drop_last=spec.get("drop_last", False))
    threads = torch.get_num_threads()
    accelerator = Accelerator(cpu=True, dataloader_config=configuration)
    torch.set_num_threads(threads)  # Accelerator sets a number of its own
    return accelerator.prepare(loader)


def make_loader(spec, dataset, batch_size, drop_last):
    match spec["kind"]:
        case "none":
            return DataLoader(dataset, batch_size=batch_size, shuffle=spec["shuffle"], drop_last=drop_last)
        case "accelerate" | "dispatch":
            return accelerated(spec, dataset, batch_size)
        case "stream":
            stream = Stream(dataset, spec["shard"], spec["buffer"], spec["seed"])
            loader = DataLoader(stream, batch_size=batch_size, drop_last=drop_last)
            batches = len(stream.ids) / batch_size
            return StreamLoader(loader, math.floor(batches) if drop_last else math.ceil(batches))
        case "elastic":
            sampler = ElasticDistributedSampler(dataset, spec["start"])
        case "distributed" | "contiguous":
            kind = {"distributed": DistributedSampler, "contiguous": ContiguousSampler}[spec["kind"]]
            sampler = kind(dataset, shuffle=spec["shuffle"], seed=spec["seed"], drop_last=spec["drop_last"])
        case kind:
            raise ValueError(f"unknown sampler {kind!r}")
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=drop_last)


class StreamLoader:
    def __init__(self, loader, length):
        self.loader, self.length, self.epoch = loader, length, 0

    def __iter__(self):
        self.loader.dataset.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)

    def __len__(self):
        return self.length


def endless_batches(loader, dataset, set_epoch):
    if len(loader) == 0:
        raise ValueError("an epoch has no samples")
    taken = 0
    for epoch in itertools.count():
        dataset.epoch = epoch
        if set_epoch:
            loader.sampler.set_epoch(taken if set_epoch == "iteration" else epoch)
        for i, batch in enumerate(loader, start=1):
            taken += 1
            yield *batch, i == len(loader)
