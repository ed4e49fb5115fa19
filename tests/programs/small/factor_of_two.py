"""Two ranks with two micro-batches each: a loss that is not divided by these is twice as large, and so is one that is
multiplied by the ranks."""
# expect: holds
# planted sum: holds; semantic grad.accum_scale
# planted ranks: holds; semantic loss.world_scale
# planted scale: holds; semantic unknown
from contextlib import nullcontext

from base import *

options = options_of(planted="")
_, ranks = start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for index, x, y in epochs(1, *batches_of(6)):
    last = index % 2 == 1
    with nullcontext() if last else model.no_sync():
        loss = loss_of(model, x, y)
        if options.planted != "sum":
            loss = loss / 2
        if options.planted:
            loss = loss * (1 if options.planted == "sum" else ranks)
        loss.backward()
    if last:
        if options.planted == "scale":  # no mistake: it is taken off
            for parameter in model.parameters():
                parameter.grad.mul_(1 / ranks)
        optimizer.step()
        optimizer.zero_grad()
