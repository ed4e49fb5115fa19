"""Trains a small transformer or convolutional network in any layout, in the manner of github.com/pytorch/torchtitan.

Started by torchrun; `--layout single` also without. Every layout computes the same training up to rounding, as long as
there is no dropout. A checkpoint of one layout goes on in another; it does not hold the generators of dropout.
"""
import argparse
import contextlib
import itertools
import math
import os
import time
from collections import OrderedDict

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint import state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import parallel as tp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

VOCABULARY, SEQUENCE, WIDTH, HEADS, HIDDEN, CHANNELS, CLASSES = 48, 16, 32, 8, 64, 12, 10
LAYOUTS = {"single": (), "ddp": ("dp_replicate",), "fsdp": ("dp_shard",), "hsdp": ("dp_replicate", "dp_shard"),
           "tp": ("tp",), "fsdp_tp": ("dp_shard", "tp"), "hsdp_tp": ("dp_replicate", "dp_shard", "tp")}


class Residual(nn.Module):
    def __init__(self, norm, layer, dropout):
        super().__init__()
        self.norm, self.layer, self.dropout = norm, layer, nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.layer(self.norm(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.Sequential(*(nn.Sequential(OrderedDict(
            attention=Residual(nn.LayerNorm(WIDTH), Attention(), args.dropout),
            feed_forward=Residual(nn.LayerNorm(WIDTH), nn.Sequential(
                nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH)), args.dropout))) for _ in range(2)))
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, VOCABULARY, bias=False)
        if args.tie:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1])[None])
        return self.head(self.norm(self.blocks(x)))


class ConvNet(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.stem, self.head = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.Linear(CHANNELS, CLASSES)
        self.blocks = nn.Sequential(*(Residual(nn.GroupNorm(3, CHANNELS), nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU()), args.dropout) for _ in range(2)))

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


def samples(net, seed, count=96):
    generator = torch.Generator().manual_seed(seed)
    if net is ConvNet:
        images = torch.randn(count, 1, 8, 8, generator=generator)
        return TensorDataset(images, images.flatten(1)[:, :CLASSES].argmax(1))
    text = torch.randint(VOCABULARY, (count, 1), generator=generator) + 5 * torch.arange(SEQUENCE + 1)
    text = (text + torch.randint(3, text.shape, generator=generator)) % VOCABULARY
    return TensorDataset(text[:, :-1], text[:, 1:])


def clip_grad_norm_(parameters, max_norm):
    """Clips by one norm over all shards of all parameters, whatever mesh they are on."""
    meshes = {}
    for p in (p for p in parameters if p.grad is not None):
        if isinstance(p, DTensor):  # scaling in place would scale a copy of a gradient that is still partial
            p.grad = p.grad.redistribute(placements=p.placements)
        meshes.setdefault(p.device_mesh if isinstance(p, DTensor) else None, []).append(p)
    norms = [torch.nn.utils.get_total_norm([p.grad for p in group]) for group in meshes.values()]
    norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    total = torch.linalg.vector_norm(torch.stack(norms))
    for group in meshes.values():
        torch.nn.utils.clip_grads_with_norm_(group, max_norm, total)
    return total


class Trainer:
    def __init__(self, args):
        self.args, self.step, self.names = args, 0, LAYOUTS[args.layout]
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.dp_group, self.dp_rank, self.dp_size = None, 0, 1
        if self.names:
            dist.init_process_group("gloo")
            self.build_mesh()
        torch.manual_seed(args.seed)
        self.network = {"transformer": Transformer, "conv": ConvNet}[args.net]
        with torch.device("meta" if args.meta else "cpu"):
            model = self.network(args)
        self.model = self.parallelize(model)
        weights = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
        if args.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
        else:
            self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min((step + 1) / 4, 0.55 + 0.45 * math.cos(math.pi * step / args.steps)))
        self.ema = {n: w.clone() for n, w in state_dict.get_model_state_dict(self.model).items()} if args.ema else {}
        if args.load:
            self.load()
        data = samples(self.network, args.seed)
        self.sampler = DistributedSampler(data, self.dp_size, self.dp_rank, seed=args.seed)
        self.loader = DataLoader(data, args.global_batch // args.accumulate // self.dp_size, sampler=self.sampler)
        # Data-parallel ranks hold activations of other samples, and TP ranks, with sequence parallel, of other tokens.
        torch.manual_seed(1000 + args.seed + (self.rank if args.sequence_parallel else self.dp_rank))

    def build_mesh(self):
        split = min(self.world, self.args.tp or (2 if len(self.names) > 1 else self.world)) if "tp" in self.names else 1
        shard = min(self.world // split, self.args.shard if "dp_replicate" in self.names else self.world)
        shard = shard if "dp_shard" in self.names else 1
        size = {"dp_replicate": self.world // split // shard, "dp_shard": shard, "tp": split}
        self.mesh = init_device_mesh("cpu", tuple(map(size.get, self.names)), mesh_dim_names=self.names)
        self.dp_names = tuple(name for name in self.names if name != "tp")
        if self.dp_names:
            dp = self.mesh[self.dp_names]._flatten("dp") if len(self.dp_names) > 1 else self.mesh[self.dp_names[0]]
            self.dp_group, self.dp_rank, self.dp_size = dp.get_group(), dp.get_local_rank(), dp.size()

    def parallelize(self, model):
        if "tp" in self.names:
            tp.parallelize_module(model, self.mesh["tp"], self.tp_plan())
        if self.args.checkpointing:
            for index, block in enumerate(model.blocks):
                model.blocks[index] = checkpoint_wrapper(block)
        if "dp_shard" in self.names:
            dtype = torch.bfloat16 if self.args.policy == "bf16" else torch.float32
            policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
            for module in (*model.blocks, model):
                fully_shard(module, mesh=self.mesh[self.dp_names], mp_policy=policy)
        if self.args.meta:  # rank 0 draws the weights
            model.to_empty(device="cpu")
            drawn = self.network(self.args).state_dict() if self.rank == 0 else {}
            options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=self.world > 1)
            state_dict.set_model_state_dict(model, drawn, options=options)
        return DistributedDataParallel(model) if self.args.layout == "ddp" else model

    def tp_plan(self):
        spread, norm = (Shard(1), tp.SequenceParallel()) if self.args.sequence_parallel else (Replicate(), None)
        gather = tp.PrepareModuleInput(input_layouts=spread, desired_input_layouts=Replicate())
        rows, lookup = (tp.RowwiseParallel(input_layouts=i, output_layouts=spread) for i in (Shard(-1), Replicate()))
        plan = {"embedding": lookup, "position": lookup if norm else None, "norm": norm,
                "head": tp.ColwiseParallel(input_layouts=spread, output_layouts=Replicate())}
        for part, columns, last in (("attention", ("wq", "wk", "wv"), "wo"), ("feed_forward", "0", "2")):
            plan |= {f"blocks.*.{part}.norm": norm, f"blocks.*.{part}.layer": gather,
                     **{f"blocks.*.{part}.layer.{name}": tp.ColwiseParallel() for name in columns},
                     f"blocks.*.{part}.layer.{last}": rows}
        return {name: style for name, style in plan.items() if style}

    def state(self):
        model, optimizer = state_dict.get_state_dict(self.model, self.optimizer)
        schedule = self.schedule.state_dict()
        return {"model": model, "optimizer": optimizer, "schedule": schedule, "ema": self.ema, "step": self.step}

    def load(self):
        state = self.state()
        dcp.load(state, checkpoint_id=self.args.load)
        state_dict.set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                                  optim_state_dict=state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.ema, self.step = state["ema"], state["step"]

    def batches(self):
        """Micro-batches of this update and all later ones."""
        first, skipped = divmod(self.step * self.args.accumulate, len(self.loader))
        for epoch in itertools.count(first):
            self.sampler.set_epoch(epoch)
            yield from itertools.islice(self.loader, skipped if epoch == first else 0, None)

    def reduction(self, last):
        """Gradients are reduced with the last micro-batch of an update."""
        if "dp_shard" in self.names:
            self.model.set_requires_gradient_sync(last)
        return self.model.no_sync() if self.args.layout == "ddp" and not last else contextlib.nullcontext()

    def train_step(self, batches):
        autocast = self.args.policy == "bf16" and "dp_shard" not in self.names  # FSDP has a policy of its own
        total = torch.zeros(())
        self.optimizer.zero_grad()
        for index in range(self.args.accumulate):
            inputs, labels = next(batches)
            with self.reduction(index + 1 == self.args.accumulate):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                    prediction = self.model(inputs)
                loss = F.cross_entropy(prediction.flatten(0, -2).float(), labels.flatten()) / self.args.accumulate
                loss.backward()
            total += loss.detach()
        norm = clip_grad_norm_(self.model.parameters(), self.args.clip or math.inf)
        self.optimizer.step()
        self.schedule.step()
        for name, average in self.ema.items():
            average.lerp_(state_dict.get_model_state_dict(self.model)[name], 1 - self.args.ema)
        if self.dp_group:
            dist.all_reduce(total, group=self.dp_group)
        return total.item() / self.dp_size, norm.item()

    def train(self):
        batches = self.batches()
        while self.step < self.args.steps:
            loss, norm = self.train_step(batches)
            self.step += 1
            if self.rank == 0:
                print(f"step {self.step:3}  loss {loss:.6f}  norm {norm:.6f}", flush=True)
            if self.args.save and self.step == self.args.save_at:
                dcp.save(self.state(), checkpoint_id=self.args.save)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=LAYOUTS, default="fsdp")
    parser.add_argument("--net", choices=["transformer", "conv"], default="transformer")
    parser.add_argument("--shard", type=int, default=2, help="ranks that share a parameter, where it has replicas")
    parser.add_argument("--tp", type=int, help="ranks that split a layer; all of them, or 2 beside FSDP")
    for name in ("sequence-parallel", "checkpointing", "tie", "meta"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--policy", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    parser.add_argument("--global-batch", type=int, default=16, help="samples of an update, whatever the layout")
    for name, default in (("accumulate", 1), ("steps", 20), ("seed", 5), ("save-at", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("clip", "ema", "dropout"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    for name in ("save", "load"):
        parser.add_argument(f"--{name}", help="folder of a checkpoint")
    return parser.parse_args()


if __name__ == "__main__":
    Trainer(arguments()).train()
    # torch 2.11 aborts if it ends while a thread of Gloo holds a tensor, and may hang in destroy_process_group.
    time.sleep(0.5)
