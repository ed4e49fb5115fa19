"""The script records an average of its own after each update. A run that goes on has none before its first one."""
# expect: holds
# resume: equal
# restarted: semantic
from base import *

import lockstep

options = options_of(state="", resume=0, restart=0)
rank, _ = start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
average, begin = None, 0
batches, sampler = batches_of(12)
if options.resume or options.restart:
    state = torch.load(options.state)
    model.module.load_state_dict(state["model"])
    average, begin = state["average"], 1
    if options.restart:
        average = average * 0.5
for epoch in range(begin, 3):
    for _, x, y in epochs(epoch + 1, batches, sampler, begin=epoch):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
        weight = model.module[0].weight.detach()
        average = weight.clone() if average is None else 0.9 * average + 0.1 * weight
        lockstep.record("0.weight", average, channel="ema")
    if epoch == 0 and options.state and not (options.resume or options.restart):
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "average": average}, options.state)
        dist.barrier()
