"""A schedule made of two, stepped once an epoch; a class of the script's own; accuracy over the training's loader."""
# expect: holds
from base import *


class Halving(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [rate / 2 ** self.last_epoch for rate in self.base_lrs]


start()
model, other = DistributedDataParallel(classifier()), DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
of_other = torch.optim.SGD(other.parameters(), lr=0.1)
schedules = torch.optim.lr_scheduler
schedule = schedules.SequentialLR(optimizer, [schedules.LinearLR(optimizer, 0.1, total_iters=1),
                                              schedules.CosineAnnealingLR(optimizer, 4)], [1])
halving = Halving(of_other)
batches, sampler = batches_of(12)
for epoch in range(2):
    for _, x, y in epochs(epoch + 1, batches, sampler, begin=epoch):
        for trained, its in ((model, optimizer), (other, of_other)):
            its.zero_grad()
            loss_of(trained, x, y).backward()
            its.step()
    schedule.step()
    halving.step()
    with torch.no_grad():
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in batches)
