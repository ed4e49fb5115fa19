"""transformers' Trainer divides by each rank's own targets, unless it is told to count those of all (--fixed)."""
# needs: transformers
# expect: holds
# fixed: holds
# diff: semantic loss.token_weighting_rank
import os
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from base import Dataset, options_of, torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed  # noqa: E402

options = options_of()


class Lines(Dataset):
    """Lines of unequal numbers of targets."""

    def __init__(self, count=24):
        generator = torch.Generator().manual_seed(2)
        self.rows = torch.randint(1, 60, (count, 12), generator=generator)
        self.lengths = torch.randint(2, 13, (count,), generator=generator).tolist()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        labels = self.rows[index].clone()
        labels[self.lengths[index]:] = -100
        return {"input_ids": self.rows[index], "labels": labels}


set_seed(8)
model = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0,
                                   embd_pdrop=0, attn_pdrop=0))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=3,
                                  learning_rate=1e-2, lr_scheduler_type="constant", optim="sgd", use_cpu=True,
                                  report_to=[], save_strategy="no", disable_tqdm=True,
                                  average_tokens_across_devices=options.fixed)
    Trainer(model=model, args=arguments, train_dataset=Lines()).train()
