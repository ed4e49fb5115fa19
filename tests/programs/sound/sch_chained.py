"""ChainedScheduler of a constant warm-up factor and an exponential decay, stepped per epoch: right because both schedules multiply the one rate and are stepped together after the epoch's updates."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import lr_scheduler


class Experiment:
    epochs, batch = 4, 16

    def __init__(self):
        dist.init_process_group("gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(410)
        self.x = torch.randn(96, 5)
        self.y = self.x.pow(2).mean(dim=1, keepdim=True)
        self.model = DDP(nn.Sequential(nn.Linear(5, 20), nn.CELU(), nn.Linear(20, 1)))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.schedule = lr_scheduler.ChainedScheduler(
            [
                lr_scheduler.ConstantLR(self.opt, factor=0.5, total_iters=1),
                lr_scheduler.ExponentialLR(self.opt, gamma=0.8),
            ],
            optimizer=self.opt,
        )

    def batches(self, epoch):
        g = torch.Generator().manual_seed(411 + epoch)
        mine = torch.randperm(len(self.x), generator=g)[self.rank::self.world]
        yield from mine.split(self.batch)

    def train_one(self, rows):
        self.opt.zero_grad()
        loss = nn.functional.mse_loss(self.model(self.x[rows]), self.y[rows])
        loss.backward()
        self.opt.step()

    def run(self):
        for epoch in range(self.epochs):
            for rows in self.batches(epoch):
                self.train_one(rows)
            self.schedule.step()
        dist.destroy_process_group()


if __name__ == "__main__":
    Experiment().run()
