"""Gradients are clipped by hand, through .data, which changes no version of a tensor."""
# expect: holds
from base import *

start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _, x, y in epochs(1, *batches_of(6)):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
    for parameter in model.parameters():
        parameter.grad.data.mul_(min(1, 0.5 / float(norm)))
    optimizer.step()
