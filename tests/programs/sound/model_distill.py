"""Distillation from a frozen teacher: right because the teacher runs in eval mode under no_grad outside of DDP, and the softened KL term carries the usual squared temperature."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_teacher():
    torch.manual_seed(800)
    teacher = nn.Sequential(nn.Linear(8, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.5), nn.Linear(40, 4))
    teacher.requires_grad_(False)
    return teacher.eval()


class Distiller:
    def __init__(self, teacher, student, temperature=3.0, share=0.7):
        self.teacher, self.student = teacher, student
        self.t, self.share = temperature, share

    def loss(self, x, y):
        with torch.no_grad():
            wanted = F.log_softmax(self.teacher(x) / self.t, dim=1)
        logits = self.student(x)
        soft = F.kl_div(F.log_softmax(logits / self.t, 1), wanted, log_target=True, reduction="batchmean")
        return self.share * self.t ** 2 * soft + (1 - self.share) * F.cross_entropy(logits, y)


def main():
    dist.init_process_group("gloo")
    teacher = make_teacher()
    torch.manual_seed(801)
    x = torch.randn(112, 8)
    y = teacher(x).argmax(dim=1)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=14, sampler=sampler)
    student = DDP(nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4)))
    distiller = Distiller(teacher, student)
    opt = torch.optim.Adam(student.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        student.train()
        for a, b in loader:
            opt.zero_grad()
            distiller.loss(a, b).backward()
            opt.step()
    dist.destroy_process_group()


main()
