"""A tiny GPT-2 with transformers' cosine schedule (needs transformers): right because the model shifts the labels itself, the rate starts from nought by the schedule's design and is stepped after each update."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup


class Counting(Dataset):
    """Sequences that count up by one to three, modulo twenty."""

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return (i + torch.arange(8) * (1 + i % 3)) % 20


def tiny_gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=20, n_positions=8, n_embd=12, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False,
    ))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1230)
    ds = Counting()
    sampler = DistributedSampler(ds, seed=123)
    loader = DataLoader(ds, batch_size=12, sampler=sampler)
    ddp = DDP(tiny_gpt2())
    ddp.train()
    opt = torch.optim.AdamW(ddp.parameters(), lr=0.02, weight_decay=0.01)
    epochs = 3
    schedule = get_cosine_schedule_with_warmup(opt, num_warmup_steps=2, num_training_steps=epochs * len(loader))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for ids in loader:
            loss = ddp(input_ids=ids, labels=ids).loss
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
            opt.step()
            schedule.step()
        if dist.get_rank() == 0:
            print(epoch, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
