"""Rank 0 saves, all ranks load: running means of the others come back as rank 0's, which DDP gives them anyway.
Generators are not restored, and nothing draws from them."""
# expect: holds
# resume: equal
# restarted: semantic data.resume_restart
from base import *

options = options_of(state="", resume=0, restart=0)
rank, _ = start()
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
batches, sampler = batches_of(12)
begin = 0
if options.resume or options.restart:
    state = torch.load(options.state)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = 0 if options.restart else state["epoch"]
for epoch in range(begin, 4):
    for _, x, y in epochs(epoch + 1, batches, sampler, begin=epoch):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    if epoch == 1 and options.state and not (options.resume or options.restart):
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2},
                       options.state)
        dist.barrier()
dist.destroy_process_group()
