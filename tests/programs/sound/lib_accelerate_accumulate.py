"""Hugging Face accelerate with accumulate() and clipping (needs accelerate): right because backward, step and zero_grad go through the accelerator, which clips only when gradients have been synchronised."""
import os

os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(1200)
    x = torch.randn(96, 8)
    y = x[:, :4].argmax(dim=1)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for epoch in range(3):
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
