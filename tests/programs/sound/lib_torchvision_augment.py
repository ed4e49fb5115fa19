"""Random augmentation by torchvision transforms (needs torchvision): right because only training samples are augmented, each rank draws from a seed of its own and the label does not change under the transforms."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision.transforms import v2

TRAIN = v2.Compose([v2.RandomHorizontalFlip(0.5), v2.RandomCrop(8, padding=1), v2.Normalize([0.5], [0.5])])
EVAL = v2.Normalize([0.5], [0.5])


class TopOrBottom(Dataset):
    """Label 1 where the lower half is the brighter."""

    def __init__(self, n, seed, transform):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 1, 8, 8, generator=g)
        self.labels = torch.arange(n) % 2
        self.images[self.labels == 0, :, :4] += 0.3
        self.images[self.labels == 1, :, 4:] += 0.3
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.transform(self.images[i]), self.labels[i]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train, held_out = TopOrBottom(80, 1220, TRAIN), TopOrBottom(40, 1221, EVAL)
    torch.manual_seed(1222)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 2))
    ddp = DDP(net)
    torch.manual_seed(1223 + rank)  # the transforms use the global generator
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=10, sampler=sampler)
    opt = torch.optim.Adam(ddp.parameters(), lr=5e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(ddp(x), y).backward()
            opt.step()
    if rank == 0:
        images, labels = next(iter(DataLoader(held_out, batch_size=40)))
        with torch.no_grad():
            print("held-out accuracy", (net.eval()(images).argmax(1) == labels).float().mean().item())
    dist.destroy_process_group()


main()
