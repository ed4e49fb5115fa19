"""Mixed precision with a GradScaler, accumulation with no_sync, clipping, decay on weights only, a warm-up."""
import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parameter_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=26)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    parser.add_argument("--clip", type=float, default=0.5)
    parser.add_argument("--growth-interval", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4)))
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / 5))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=args.growth_interval,
                                  enabled=args.dtype == "float16")
    data = TensorDataset(torch.randn(240, 16), torch.randint(4, (240,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    updates = micro = epoch = 0
    while updates < args.updates:
        sampler.set_epoch(epoch)
        for x, y in loader:
            micro += 1
            last = micro % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cpu", dtype=getattr(torch, args.dtype)):
                    loss = nn.functional.cross_entropy(model(x), y) / args.accumulate
                scaler.scale(loss).backward()
            if not last:
                continue
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            updates += 1
            if updates == args.updates:
                break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
