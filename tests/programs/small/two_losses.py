"""Two backward passes an update, both reduced; a batch in three is thrown away after its pass."""
# expect: holds
from base import *

start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for index, x, y in epochs(2, *batches_of(6)):
    loss_of(model, x, y).backward()
    if index % 3 != 1:
        (0.1 * model(x + 0.01).pow(2).mean()).backward()
        optimizer.step()
    optimizer.zero_grad()
