"""Gradients are clipped to a norm; it is reduced over the ranks again, or the threshold is another one."""
# expect: holds
# planted root: holds; semantic clip.norm_over_ranks
# planted other: holds; semantic clip.threshold
from base import *

options = options_of(planted="")
start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _, x, y in epochs(1, *batches_of(6)):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    if options.planted == "root":
        squares = sum(parameter.grad.norm() ** 2 for parameter in model.parameters())
        dist.all_reduce(squares)
        for parameter in model.parameters():
            parameter.grad.mul_(min(1, 0.25 / float(squares.sqrt())))
    else:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1 if options.planted == "other" else 0.25)
    optimizer.step()
