"""DistributedDataParallel on GPUs: mixed precision with a GradScaler, fused AdamW, accumulation, clipping, dropout.

With --backend gloo the ranks share the GPUs of this machine. --mistake plants one: atomics lets kernels add in any
order.
"""
import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--mistake", choices=["none", "clip", "sampler", "atomics"], default="none")
    args = parser.parse_args()
    dist.init_process_group(args.backend)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(args.mistake != "atomics")
    torch.manual_seed(11)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.GELU(),
                          nn.Dropout(0.1), nn.Linear(64, 10))
    model = DDP(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12, growth_interval=4, enabled=args.dtype == "float16")
    data = TensorDataset(torch.randn(192, 1, 8, 8), torch.randint(10, (192,)))
    sampler = None if args.mistake == "sampler" else DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    updates = micro = epoch = 0
    while updates < args.updates:
        if sampler:
            sampler.set_epoch(epoch)
        epoch += 1
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            micro += 1
            last = micro % 2 == 0
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cuda", getattr(torch, args.dtype), enabled=args.dtype != "float32"):
                    loss = nn.functional.cross_entropy(model(x), y)
                if args.mistake == "atomics":
                    index = torch.randint(4, (1 << 20,), device=device,
                                          generator=torch.Generator(device).manual_seed(1))
                    noise = torch.rand(1 << 20, device=device, generator=torch.Generator(device).manual_seed(2))
                    loss = loss + 1e-3 * torch.zeros(4, device=device).index_add(0, index, noise).sum()
                scaler.scale(loss / 2).backward()
            if not last:
                continue
            scaler.unscale_(optimizer)
            norm = args.mistake == "clip"
            torch.nn.utils.clip_grad_norm_(list(model.parameters())[2 if norm else 0 :], 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            updates += 1
            if updates == args.updates:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
