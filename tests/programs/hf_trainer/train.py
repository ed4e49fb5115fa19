"""A language model of random weights, trained by Hugging Face's Trainer, after transformers' run_clm.py."""
import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Rows(Dataset):
    def __init__(self, count, length, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, vocabulary, (count, length), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-dir", default="out")
    parser.add_argument("--max-steps", type=int, default=22)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--resume", default=None)
    args = parser.parse_args()
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    training_args = TrainingArguments(
        output_dir=args.output_dir,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=args.accumulate,
        max_steps=args.max_steps,
        learning_rate=1e-3,
        warmup_steps=4,
        weight_decay=0.1,
        max_grad_norm=0.5,
        save_steps=10,
        logging_steps=5,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=training_args, train_dataset=Rows(96, 16, 64),
                      eval_dataset=Rows(8, 16, 64))
    trainer.train(resume_from_checkpoint=args.resume)
    trainer.evaluate()


if __name__ == "__main__":
    main()
