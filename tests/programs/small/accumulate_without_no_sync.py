"""Each micro-batch is reduced: slower than no_sync (--fixed), and right."""
# expect: holds
# fixed: holds
# diff: rounding
from contextlib import nullcontext

from base import *

options = options_of()
start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for index, x, y in epochs(2, *batches_of(6)):
    last = index % 4 == 3
    with model.no_sync() if options.fixed and not last else nullcontext():
        (loss_of(model, x, y) / 4).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad(set_to_none=options.fixed)
