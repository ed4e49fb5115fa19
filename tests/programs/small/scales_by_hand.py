"""A loss scale of the script's own, which grows: torch._foreach_mul_ takes it off."""
# expect: holds
from base import *

start()
model = DistributedDataParallel(classifier(), gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scale, updates = 1024.0, 0
for _, x, y in epochs(2, *batches_of(6)):
    optimizer.zero_grad(set_to_none=False)
    (loss_of(model, x, y) * scale).backward()
    torch._foreach_mul_([parameter.grad for parameter in model.parameters()], 1 / scale)
    if all(torch.isfinite(parameter.grad).all() for parameter in model.parameters()):
        optimizer.step()
        updates += 1
    if updates % 3 == 0:
        scale *= 2
