"""No loader at all, batches are index slices of one shuffled order per epoch: right because the order is the same on all ranks and each rank takes its own half of every slice."""
import torch
import torch.distributed as dist
import torch.nn.functional as F

dist.init_process_group("gloo")
R, W = dist.get_rank(), dist.get_world_size()
torch.manual_seed(550)

N, BATCH = 96, 24
X = torch.randn(N, 8)
Y = torch.stack([X[:, :4].sum(1), X[:, 4:].sum(1)], 1).argmax(1)

net = torch.nn.Linear(8, 2)
net = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.3)
per_rank = BATCH // W
for epoch in range(3):
    order = torch.randperm(N, generator=torch.Generator().manual_seed(epoch))
    X_epoch, Y_epoch = X[order], Y[order]
    for start in range(0, N, BATCH):
        mine = slice(start + R * per_rank, start + (R + 1) * per_rank)
        opt.zero_grad()
        loss = F.cross_entropy(net(X_epoch[mine]), Y_epoch[mine])
        loss.backward()
        opt.step()

with torch.no_grad():
    hits = (net.module(X[R::W]).argmax(1) == Y[R::W]).sum()
dist.all_reduce(hits)
if R == 0:
    print(f"{hits.item()} of {N} right")
dist.destroy_process_group()
