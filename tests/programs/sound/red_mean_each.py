"""No DDP, each gradient all-reduced by itself and divided by the world size: right because the weights are broadcast first, all ranks reduce in the same order and missing gradients count as zeros."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def broadcast_weights(model):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), src=0)


def average_gradients(model):
    size = float(dist.get_world_size())
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= size


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3)
        self.fc1, self.fc2 = nn.Linear(36, 24), nn.Linear(24, 4)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv(x), 2)).flatten(1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def run(rank, size):
    torch.manual_seed(1234)
    model = Net()
    broadcast_weights(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    g = torch.Generator().manual_seed(940)
    label = torch.arange(96) % 4
    image = torch.randn(96, 1, 8, 8, generator=g) * 0.5
    for corner, (i, j) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        image[label == corner, 0, i:i + 4, j:j + 4] += 1.0
    for epoch in range(3):
        order = torch.randperm(96, generator=g)
        for rows in order.split(24):
            mine = rows[rank::size]
            optimizer.zero_grad()
            F.nll_loss(model(image[mine]), label[mine]).backward()
            average_gradients(model)
            optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
