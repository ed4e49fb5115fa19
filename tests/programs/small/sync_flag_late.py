"""The flag that makes DDP reduce is set between forward and backward pass: the first micro-batch is reduced alone."""
# expect: reduction grad.not_reduced
# fixed: holds
# diff: semantic grad.not_reduced
from base import *

options = options_of()
start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for index, x, y in epochs(2, *batches_of(4)):
    last = index % 4 == 3
    if options.fixed:
        model.require_backward_grad_sync = last
    loss = loss_of(model, x, y) / 4
    model.require_backward_grad_sync = last
    loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
