"""bfloat16 autocast on CPU: right because only the forward pass and the loss are under autocast, the weights and gradients stay float32 and bfloat16's range needs no loss scale."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Step:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            loss = self.criterion(self.model(x).float(), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(900)
    x = torch.randn(104, 12)
    y = x.view(104, 3, 4).sum(2).argmax(1)
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=13, sampler=sampler)
    net = DDP(nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 3)))
    step = Step(net, torch.optim.AdamW(net.parameters(), lr=5e-3), nn.CrossEntropyLoss())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        losses = [step(a, b) for a, b in loader]
        if dist.get_rank() == 0:
            print(epoch, torch.stack(losses).mean().item())
    assert all(p.dtype is torch.float32 for p in net.parameters())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
