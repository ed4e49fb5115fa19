"""A small Llama of random weights, trained by Hugging Face's Trainer, after transformers' run_clm.py.

`--layout fsdp`: transformers shards the model as it loads it. `--layout plugin`: Trainer does, by accelerate's plugin,
as `fsdp_config` asks for. Accelerate 1.15 ignores the plugin on CPU and trains by DDP, without a word; `OnCpu` tells
it to shard.
"""
import argparse
import hashlib
import os
import tempfile

import torch
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed
from transformers.distributed import DistributedConfig


class Rows(Dataset):
    def __init__(self, count, length, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, vocabulary, (count, length), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class OnCpu(Trainer):
    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        if self.args.fsdp_plugin_args:
            self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            self.accelerator.state.distributed_type, self.is_fsdp_enabled = DistributedType.FSDP, True


def model_of(layout):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=2, max_position_embeddings=16))
    if layout != "fsdp":
        return model
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        shards = DistributedConfig(fsdp_size=int(os.environ["WORLD_SIZE"]))
        return LlamaForCausalLM.from_pretrained(folder, distributed_config=shards)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=["ddp", "fsdp", "plugin"], default="fsdp", help="ddp: also on one rank")
    parser.add_argument("--output-dir", default="out")
    parser.add_argument("--max-steps", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--max-grad-norm", type=float, default=0.0)
    args = parser.parse_args()
    set_seed(1)
    model = model_of(args.layout)
    sharded = {"fsdp": True, "fsdp_config": {
        "version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}} if args.layout == "plugin" else {}
    training_args = TrainingArguments(
        output_dir=args.output_dir,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=args.accumulate,
        max_steps=args.max_steps,
        learning_rate=1e-3,
        warmup_steps=2,
        weight_decay=0.1,
        max_grad_norm=args.max_grad_norm,
        save_strategy="no",
        logging_steps=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **sharded,
    )
    trainer = OnCpu(model=model, args=training_args, train_dataset=Rows(48, 16, 64))
    trainer.train()
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    if trainer.is_world_process_zero():
        print("weights", hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights.values())).hexdigest())


if __name__ == "__main__":
    main()
