"""A LightningModule in three layouts, after lightning.ai/docs/pytorch/stable/advanced/model_parallel/tp_fsdp.html."""
import argparse
import hashlib

import lightning as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.w1, self.w2 = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.w2(nn.functional.gelu(self.w1(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(20, 32), nn.Linear(32, 4)
        self.blocks = nn.Sequential(FeedForward(32, 64), FeedForward(32, 64))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class LitClassifier(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = Net()

    def configure_model(self):
        if self.device_mesh is None or isinstance(self.net, FSDPModule):
            return
        data, split = self.device_mesh["data_parallel"], self.device_mesh["tensor_parallel"]
        if split.size() > 1:
            plan = {"blocks.*.w1": ColwiseParallel(), "blocks.*.w2": RowwiseParallel()}
            parallelize_module(self.net, split, plan)
        for module in (*self.net.blocks, self.net):
            fully_shard(module, mesh=data)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(x), y), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)]


def rows(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 20, generator=generator), torch.randint(4, (count,), generator=generator))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=["single", "ddp", "fsdp", "fsdp_tp"], default="fsdp")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--max-epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4, help="of a rank")
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--sanity", type=int, default=2, help="batches that are evaluated before the training")
    args = parser.parse_args()
    L.seed_everything(3)
    split = 2 if args.layout == "fsdp_tp" else 1
    strategy = {"single": "auto", "ddp": "ddp"}.get(args.layout) or ModelParallelStrategy(args.devices // split, split)
    model = LitClassifier(lr=1e-2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=args.devices,
        strategy=strategy,
        max_epochs=args.max_epochs,
        accumulate_grad_batches=args.accumulate,
        num_sanity_val_steps=args.sanity,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(rows(48, 1), batch_size=args.batch_size, shuffle=True),
                DataLoader(rows(16, 2), batch_size=4))
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    if trainer.is_global_zero:
        print("weights", hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights.values())).hexdigest())


if __name__ == "__main__":
    main()
