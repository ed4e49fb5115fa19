"""The sum over all ranks' samples is divided by their number afterwards, then clipped."""
# expect: holds
from base import *

_, ranks = start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _, x, y in epochs(1, *batches_of(7)):
    optimizer.zero_grad()
    loss_of(model, x, y, reduction="sum").backward()
    count = torch.tensor(float(len(y)))
    dist.all_reduce(count)
    for parameter in model.parameters():
        parameter.grad = parameter.grad * (ranks / count)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
