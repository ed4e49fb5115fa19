"""Resume with EMA and BatchNorm: right because the averaged model with its count and the running statistics are all in the checkpoint, and rank 0's buffers are what DDP broadcasts anyway."""
# resume: equal
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def options():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state", default=None)
    ap.add_argument("--resume", action="store_true")
    return ap.parse_args()


def main(args):
    dist.init_process_group("gloo")
    torch.manual_seed(1030)
    x = torch.randn(100, 7) * 2 + 1
    y = (x[:, 0] > x[:, 1:].mean(1)).long()
    ds = TensorDataset(x, y)
    sampler = DistributedSampler(ds, seed=2)
    loader = DataLoader(ds, batch_size=10, sampler=sampler)
    net = nn.Sequential(nn.Linear(7, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 2))
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    start = 0
    if args.resume:
        ckpt = torch.load(args.state, map_location="cpu")
        net.load_state_dict(ckpt["net"])
        ema.load_state_dict(ckpt["ema"])
        opt.load_state_dict(ckpt["opt"])
        start = ckpt["epochs_done"]
    ddp = DDP(net)
    for epoch in range(start, 3):
        sampler.set_epoch(epoch)
        ddp.train()
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(ddp(a), b).backward()
            opt.step()
            ema.update_parameters(net)
        if epoch == 1 and args.state and not args.resume:
            if dist.get_rank() == 0:
                torch.save(
                    {"net": net.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict(), "epochs_done": 2},
                    args.state,
                )
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(options())
