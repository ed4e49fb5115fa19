"""Some parameters have a gradient on one rank only; all are halved by hand after the reduction."""
# expect: holds
from base import *


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.out = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x, takes_one):
        return self.out(torch.relu(self.one(x) if takes_one else self.other(x)))


rank, _ = start()
model = DistributedDataParallel(Branches(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for index, x, y in epochs(1, *batches_of(6)):
    optimizer.zero_grad()
    functional.cross_entropy(model(x, (index + rank) % 3 == 0), y).backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.5)
    optimizer.step()
