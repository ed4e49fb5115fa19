"""LBFGS calls its closure several times an update; each call makes two reduced passes."""
# expect: holds
from base import *

start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
for _, x, y in epochs(2, *batches_of(24)):
    def closure():
        optimizer.zero_grad()
        first = loss_of(model, x, y) / 2
        first.backward()
        second = loss_of(model, x, y) / 2
        second.backward()
        return first.detach() + second
    optimizer.step(closure)
