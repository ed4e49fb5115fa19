"""Weights and gradients in bfloat16: their mean rounds as bfloat16 does. Each micro-batch is clamped by hand."""
# expect: holds
from base import *

start()
model = DistributedDataParallel(classifier().bfloat16())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for index, x, y in epochs(1, *batches_of(6)):
    functional.cross_entropy(model(x.bfloat16()).float(), y).backward()
    for parameter in model.parameters():
        parameter.grad.clamp_(-0.25, 0.25)
    if index % 2:
        optimizer.step()
        optimizer.zero_grad()
