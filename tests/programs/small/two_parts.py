"""Two parts of a model in a DDP of their own: one is called past its wrapper, or has none."""
# expect: holds
# planted past: ranks grad.module_outside; semantic grad.module_outside
# planted outside: ranks grad.module_outside; semantic grad.module_outside
from base import *

options = options_of(planted="")
start()
body, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 4)
outer_body = DistributedDataParallel(body)
outer_head = head if options.planted == "outside" else DistributedDataParallel(head)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
for _, x, y in epochs(1, *batches_of(6)):
    optimizer.zero_grad()
    features = (body if options.planted == "past" else outer_body)(x)
    functional.cross_entropy(outer_head(features), y).backward()
    optimizer.step()
