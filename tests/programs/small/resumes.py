"""A run saves in the middle of an epoch, after it; others go on from there, rightly and in many wrong ways."""
# expect: holds
# resume: equal
# restarted order: semantic ckpt.other_tensor
# restarted half: semantic ckpt.dtype_cast
# restarted written: semantic model.written_on_rank
# restarted anew: semantic ckpt.schedule_missing
# restarted unloaded: semantic ckpt.schedule_missing
# restarted epoch: semantic ckpt.schedule_position
# restarted average: semantic ema.rebuilt
# restarted offset: semantic data.resume_offset_repeated
from base import *

import lockstep

options = options_of(state="", resume=0, restart="")
rank, _ = start()
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
wrapped = DistributedDataParallel(model)
parameters = list(model.parameters())
if options.restart == "order":
    parameters[0], parameters[2] = parameters[2], parameters[0]
optimizer = torch.optim.Adam(parameters, lr=0.01)
batches, sampler = batches_of(12)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5 * len(batches))
average, begin, taken = None, 0, 0
if options.resume or options.restart:
    state = torch.load(options.state)
    weights = state["model"]
    if options.restart == "half":
        weights = {name: weight.half().float() for name, weight in weights.items()}
    model.load_state_dict(weights)
    if options.restart == "written" and rank == 1:
        with torch.no_grad():
            model[0].weight.mul_(1.01)
    optimizer.load_state_dict(state["optimizer"])
    average, begin, taken = state["average"], 1, 2
    if options.restart == "anew":
        optimizer.param_groups[0]["lr"] = 0.01
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5 * len(batches))
    elif options.restart != "unloaded":
        schedule.load_state_dict(state["schedule"])
    if options.restart == "epoch":
        schedule.last_epoch = begin
    if options.restart == "average":
        average = model[0].weight.detach().clone()
for epoch in range(begin, 4):
    for index, x, y in epochs(epoch + 1, batches, sampler, begin=epoch):
        if index < taken:
            continue
        optimizer.zero_grad()
        loss_of(wrapped, x, y).backward()
        optimizer.step()
        schedule.step()
        weight = model[0].weight.detach()
        average = weight.clone() if average is None else 0.9 * average + 0.1 * weight
        lockstep.record("0.weight", average, channel="ema")
        if (epoch, index) == (1, 1) and options.state and not (options.resume or options.restart):
            if rank == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average,
                            "schedule": schedule.state_dict()}, options.state)
            dist.barrier()
    if options.restart != "offset":
        taken = 0
