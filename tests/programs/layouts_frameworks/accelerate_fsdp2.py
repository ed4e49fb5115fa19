"""A small transformer, sharded by accelerate's FSDP2 plugin, after examples/fsdp2/fsdp2_fp8.py of accelerate.

accelerate 1.15 gives a plugin to accelerators only: on CPU it says nothing and trains by DDP. So `Accelerator` is told
here that it shards, and all else is accelerate's own.
"""
import argparse
import hashlib

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, set_seed
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.utils.data import DataLoader, TensorDataset

WIDTH, SEQUENCE, VOCABULARY = 32, 8, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed_forward(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(torch.arange(SEQUENCE))
        return self.head(self.norm(self.blocks(x)))


def text():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(VOCABULARY, (64, 1), generator=generator) + 5 * torch.arange(SEQUENCE + 1)
    rows = (rows + torch.randint(3, rows.shape, generator=generator)) % VOCABULARY
    return TensorDataset(rows[:, :-1], rows[:, 1:])


def accelerator_of(args):
    if args.layout != "fsdp":
        return Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Block"],
        cpu_ram_efficient_loading=False)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate, fsdp_plugin=plugin)
    accelerator.state.distributed_type, accelerator.state.fsdp_plugin = DistributedType.FSDP, plugin
    return accelerator


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=["ddp", "fsdp"], default="fsdp", help="ddp: also on one rank")
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4, help="of a rank")
    parser.add_argument("--max-grad-norm", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    accelerator = accelerator_of(args)
    set_seed(1)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(text(), batch_size=args.batch_size, shuffle=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for epoch in range(args.epochs):
        for tokens, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
                accelerator.backward(loss)
                if accelerator.sync_gradients and args.max_grad_norm:
                    accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {accelerator.gather(loss.detach()).mean().item():.6f}")
    weights = get_model_state_dict(accelerator.unwrap_model(model), options=StateDictOptions(full_state_dict=True))
    accelerator.print("weights", hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights.values())).hexdigest())
    accelerator.end_training()


if __name__ == "__main__":
    main()
