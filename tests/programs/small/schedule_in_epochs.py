"""A schedule is stepped once an update; its length is given in updates, or in epochs."""
# expect: holds
# planted epochs: holds; semantic lr.schedule_rate
from base import *

options = options_of(planted="")
start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches, sampler = batches_of(12)
length = 3 if options.planted else 3 * len(batches)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length)
for _, x, y in epochs(3, batches, sampler):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()
    schedule.step()
