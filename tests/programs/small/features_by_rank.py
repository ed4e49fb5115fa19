"""Each rank draws features of its own into a buffer, after the model is wrapped."""
# expect: ranks buffer.not_synced
# fixed: holds
from base import *


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("projection", torch.randn(8, 16))
        self.norm, self.out = nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.norm(torch.cos(x @ self.projection)))


options = options_of()
rank, _ = start()
model = DistributedDataParallel(Features(), broadcast_buffers=False)
if not options.fixed:
    torch.manual_seed(rank)
model.module.projection = torch.randn(8, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _, x, y in epochs(1, *batches_of(12)):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()
