"""An average of the weights, which each rank keeps; rank 0 alone copies it into the weights after an epoch."""
# expect: holds
# planted average: ranks model.written_on_rank; semantic model.written_on_rank
from base import *

import lockstep

options = options_of(planted="")
rank, _ = start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
averages = [parameter.detach().clone() for parameter in model.parameters()]
for index, x, y in epochs(2, *batches_of(12)):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()
    for average, parameter in zip(averages, model.parameters(), strict=True):
        average.lerp_(parameter.detach(), 0.1)
    lockstep.record("0.weight", averages[0], channel="ema")
    if options.planted and index == 3 and rank == 0:
        with torch.no_grad():
            for average, parameter in zip(averages, model.parameters(), strict=True):
                parameter.copy_(average)
