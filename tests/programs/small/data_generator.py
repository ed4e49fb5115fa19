"""The data set draws from a generator of its own: a run that goes on has to restore it."""
# expect: holds
# resume: equal
# restarted: semantic ckpt.data_generator
from base import *


class Noisy(Points):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn(8, generator=self.generator), y


options = options_of(state="", resume=0, restart=0)
rank, ranks = start()
model = DistributedDataParallel(classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = Noisy()
batches, sampler = batches_of(12, data)
begin = 0
if options.resume or options.restart:
    state = torch.load(options.state)
    model.module.load_state_dict(state["model"])
    begin = 2
    if options.resume:
        data.generator.set_state(state["generators"][rank])
for epoch in range(begin, 4):
    for _, x, y in epochs(epoch + 1, batches, sampler, begin=epoch):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    if epoch == 1 and options.state and not (options.resume or options.restart):
        generators = [torch.empty_like(data.generator.get_state()) for _ in range(ranks)]
        dist.all_gather(generators, data.generator.get_state())
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "generators": generators}, options.state)
        dist.barrier()
