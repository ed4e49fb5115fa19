"""A plain loop with dropout, and slips that are made in one line of it."""
# expect: holds
# planted short: shares data.content; semantic data.content
# planted shares: shares data.permutation_rank_dependent; semantic data.permutation_rank_dependent
# planted seed: holds; semantic data.sampler_options
# planted masks: holds; semantic rng.dropout_clone
# planted again: holds; semantic grad.reduce_sum
# planted twice: usage opt.taken_twice; semantic opt.taken_twice
from base import *

options = options_of(planted="")
rank, _ = start()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
data = Points(80 if options.planted == "short" and rank == 1 else 96)
sampler = DistributedSampler(data, seed={"seed": 3, "shares": rank}.get(options.planted, 0))
batches = DataLoader(data, batch_size=12, sampler=sampler)
torch.manual_seed(100 if options.planted == "masks" else 100 + rank)
for index, x, y in epochs(2, batches, sampler):
    optimizer.zero_grad()
    loss_of(wrapped, x, y).backward()
    if options.planted == "again":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
    if options.planted == "twice" and index == 1:
        optimizer.step()
