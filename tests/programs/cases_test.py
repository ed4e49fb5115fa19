"""Cases that people's trainings have: closures, turns of optimizers, scalers, compiled models; the public functions."""

import importlib.util
import json
import os
import unittest

import torch  # once: the scripts run in forks of this process

from programs import ProgramTest, Trace, lockstep, torch_is_before

#: What the scripts begin with.
START = """
import torch
from torch import nn
torch.manual_seed(0)
x, y = torch.randn(12, 4), torch.randn(12, 2)
model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
sgd = lambda *models: torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.1, momentum=0.9)
def loss_of(model): return nn.functional.mse_loss(model(x), y)
def update(optimizer, *models):
    optimizer.zero_grad()
    sum(loss_of(m) for m in models).backward()
    optimizer.step()
"""

#: The same, with the model under DDP in a group of one process.
IN_DDP = START + """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(model)
"""

WEIGHTS = ["0.weight", "0.bias", "2.weight", "2.bias"]


class CasesTest(ProgramTest):
    PARTS = 3

    def test_a_loop_without_a_loader_has_a_number_for_each_row(self):
        trace = self.records(START + "optimizer = sgd(model)\nfor _ in range(3): update(optimizer, model)")
        self.assertTrue(trace.is_whole)
        self.assertEqual(trace.names(0, "samples"), ["items"])
        items = trace.value(0, "samples", "items")
        self.assertEqual(len(set(items)), 12)
        self.assertEqual(items, trace.value(2, "samples", "items"))
        self.assertEqual(trace.value(2, "ledger", "samples_taken"), [36])
        self.assertEqual(trace.names(2, "weight"), WEIGHTS)
        self.assertEqual(sorted(trace.steps), [-1, 0, 1, 2])

    def test_closures_are_looked_into(self):
        trace = self.records(START + """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = loss_of(model)
    loss.backward()
    return loss
for _ in range(2): optimizer.step(closure)
""")
        evaluations = trace.value(0, "ledger", "micro_batches")[0]
        self.assertGreater(evaluations, 1)
        self.assertEqual(trace.names(0, "loss"), ["local"] + [f"local#{i}" for i in range(1, evaluations)])
        self.assertEqual(trace.names(0, "gradient")[:5], WEIGHTS + ["0.weight#1"])
        self.assertIn("0.weight.old_dirs.0", trace.names(1, "optimizer"))
        self.assertEqual(trace.value(1, "ledger", "updates"), [2])

    def test_optimizers_in_turns_make_a_step(self):
        trace = self.records(START + """
other = nn.Linear(4, 2)
one, two = sgd(model), sgd(other)
for _ in range(3):
    update(one, model)
    update(two, other)
""")
        self.assertEqual(sorted(trace.steps), [-1, 0, 1, 2])
        self.assertEqual(trace.names(0, "weight"), ["model0." + n for n in WEIGHTS] + ["model1.weight", "model1.bias"])
        self.assertEqual(trace.names(1, "gradient"), trace.names(0, "weight"))
        self.assertEqual(trace.names(1, "input"), ["model0.input", "model1.input"])
        self.assertIn("optimizer1.learning_rate", trace.names(0, "ledger"))
        self.assertIn("optimizer1.momentum", trace.names(-1, "ledger"))

    def test_of_optimizers_without_turns_one_leads(self):
        trace = self.records(START + """
critic, generator = nn.Linear(4, 2), model
one, two = sgd(critic), sgd(generator)
for i in range(9):
    update(one, critic)
    if i % 3 == 2: update(two, generator)
""")
        self.assertEqual(sorted(trace.steps), list(range(-1, 10)))  # the generator's last update follows the ninth
        self.assertEqual(trace.value(8, "ledger", "updates"), [9])
        self.assertEqual([step for step in range(9) if "model1.0.weight" in trace.names(step, "gradient")], [3, 6])

    def test_each_batch_is_in_the_step_that_used_it(self):
        """Whatever turns the optimizers take, and also where a wrapper of the loader fetches one batch ahead."""
        batches = """
from torch.utils.data import DataLoader, TensorDataset
critic, generator = nn.Linear(4, 2), model
loader = DataLoader(TensorDataset(x, y), batch_size=2)
one, two = sgd(critic), sgd(generator)
def ahead(loader):
    batches = iter(loader)
    now = next(batches)
    for then in batches:
        yield now
        now = then
    yield now
def train(optimizer, trained, a):
    optimizer.zero_grad()
    trained(a).square().mean().backward()
    optimizer.step()
SPARE
for epoch in range(2):
    for i, (a, b) in enumerate(ahead(loader)):
        LOOP
"""
        noise = "train(two, generator, torch.randn(2, 4))"
        patterns = {"critic first": f"train(one, critic, a)\n        if i % 3 == 2: {noise}",
                    "generator first": f"if i % 3 == 0: {noise}\n        train(one, critic, a)",
                    "in turns": f"train(one, critic, a)\n        {noise}",
                    "never": "train(one, critic, a)",
                    "a third never": f"train(one, critic, a)\n        {noise}",
                    "one after the other": "train(*((two, generator) if epoch else (one, critic)), a)"}
        for name, loop in patterns.items():
            with self.subTest(name):
                spare = "three = sgd(nn.Linear(1, 1))" if "third" in name else ""
                script = START + batches.replace("LOOP", loop).replace("SPARE", spare)
                trace = self.records(script, folder=name.replace(" ", "-"))
                steps = sorted(step for step in trace.steps if "samples" in trace.steps[step])
                self.assertEqual([trace.value(step, "samples", "ids") for step in steps],
                                 [[2 * i, 2 * i + 1] for i in range(6)] * 2)
                self.assertEqual(steps, list(range(12)))
                for step in steps:
                    self.assertIn("local", trace.names(step, "loss"))
                    self.assertEqual(trace.value(step, "ledger", "samples_taken"), [2 * step + 2])
                    self.assertEqual(trace.value(step, "ledger", "epoch"), [step // 6])
                    self.assertEqual(trace.value(step, "ledger", "micro_batches"), [len(trace.names(step, "loss"))])
                    self.assertEqual(len(trace.names(step, "input")), len(trace.names(step, "loss")))

    def test_a_pass_after_the_last_update_makes_no_step(self):
        trace = self.records(START + "optimizer = sgd(model)\nupdate(optimizer, model)\nloss_of(model).backward()")
        self.assertTrue(trace.is_whole)
        self.assertEqual(sorted(trace.steps), [-1, 0])

    def test_one_optimizer_of_two_models(self):
        trace = self.records(START + """
other = nn.Linear(4, 2)
optimizer = sgd(model, other)
update(optimizer, model, other)
""")
        names = ["model0." + name for name in WEIGHTS] + ["model1.weight", "model1.bias"]
        self.assertEqual(trace.names(0, "gradient"), names)

    def test_a_part_that_is_trained_belongs_to_its_model(self):
        trace = self.records(START + """
for p in model[0].parameters(): p.requires_grad_(False)
optimizer = torch.optim.Adam(model[2].parameters())
update(optimizer, model)
""")
        self.assertEqual(trace.names(0, "weight"), WEIGHTS)
        self.assertEqual(trace.names(0, "gradient"), WEIGHTS[2:])
        self.assertEqual(trace.names(0, "input"), ["input"])

    def test_autocast_is_told(self):
        for script in ("""
with torch.autocast("cpu", dtype=torch.bfloat16): loss = loss_of(model)
loss.backward()
""", """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
model = accelerator.prepare(model)
accelerator.backward(loss_of(model))
"""):
            folder = "accelerate" if "accelerate" in script else "autocast"
            with self.subTest(folder):
                trace = self.records(START + "optimizer = sgd(model)" + script + "optimizer.step()", folder)
                self.assertEqual(trace.header["arithmetic"], "bfloat16")
                self.assertEqual(trace.header["seen"]["autocast"], "bf16")
                self.assertEqual(trace.names(0, "input"), ["input"])

    def test_copies_and_unpickled_models_are_known(self):
        trace = self.records(START + """
import copy
torch.save(copy.deepcopy(model), "whole.pt")
model = torch.load("whole.pt", weights_only=False)
optimizer = sgd(model)
update(optimizer, model)
""")
        self.assertEqual(trace.names(0, "weight"), WEIGHTS)
        self.assertEqual(trace.names(0, "input"), ["input"])

    def test_parameters_of_no_model_have_numbers(self):
        trace = self.records(START + """
w = torch.zeros(4, 2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    (x @ w - y).square().mean().backward()
    optimizer.step()
""")
        self.assertEqual(trace.names(1, "weight"), ["parameter0"])
        self.assertEqual(trace.names(1, "gradient"), ["parameter0"])

    def test_an_overflow_leaves_an_update_out(self):
        trace = self.records(START + """
optimizer = sgd(model)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=1)
for i in range(3):
    optimizer.zero_grad()
    loss = loss_of(model) * (float("inf") if i == 1 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""")
        self.assertEqual(sorted(trace.steps), [-1, 0, 1, 2])
        self.assertEqual([trace.value(s, "ledger", "skipped") for s in range(3)], [[0], [1], [1]])
        self.assertEqual([trace.value(s, "ledger", "loss_scale") for s in range(3)], [256.0, 512.0, 256.0])
        self.assertEqual(trace.names(0, "gradient"), WEIGHTS + ["unscaled " + name for name in WEIGHTS])
        self.assertEqual(trace.names(1, "gradient"), trace.names(0, "gradient"))
        self.assertLess(trace.value(0, "loss", "local"), 10)

    def test_what_a_checkpointed_layer_computes_again_is_no_pass(self):
        trace = self.records(START + """
from torch.utils.checkpoint import checkpoint
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)
    def forward(self, x, reentrant):
        return self.last(checkpoint(self.first, x, use_reentrant=reentrant))
model = Model()
optimizer = sgd(model)
x.requires_grad_()
for reentrant in (True, False):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x, reentrant), y).backward()
    optimizer.step()
""")
        for step in (0, 1):
            self.assertEqual(trace.names(step, "loss"), ["local"])
            self.assertEqual(trace.names(step, "input"), ["x"])
            self.assertEqual(trace.value(step, "ledger", "micro_batches"), [1])

    def test_a_compiled_model_is_told(self):
        trace = self.records(START + """
model = torch.compile(model, backend="eager")
optimizer = sgd(model)
for _ in range(2): update(optimizer, model)
""")
        self.assertEqual(trace.names(1, "weight"), WEIGHTS)
        self.assertIn("torch.compile", trace.header["unseen"][0])
        self.assertEqual(len(trace.names(1, "input")), 1)

    def test_a_model_compiled_in_place_is_told(self):
        trace = self.records(START + """
optimizer = sgd(model)
model.compile(backend="eager")
for _ in range(2): update(optimizer, model)
""")
        self.assertEqual(trace.names(1, "weight"), WEIGHTS)
        self.assertIn("torch.compile", trace.header["unseen"][0])

    def test_a_compiled_function_is_told_and_a_model_whose_optimizer_holds_the_uncompiled(self):
        for name, loss in (("loss_of_all", "@torch.compile(backend='eager')\ndef loss_of_all(): return loss_of(model)"),
                           ("Sequential", "compiled = torch.compile(model, backend='eager')\n"
                                          "def loss_of_all(): return loss_of(compiled)")):
            with self.subTest(name):
                trace = self.records(START + "optimizer = sgd(model)\n" + loss + """
for _ in range(2):
    optimizer.zero_grad()
    loss_of_all().backward()
    optimizer.step()
""", folder=name)
                self.assertEqual(trace.names(1, "weight"), WEIGHTS)
                self.assertIn(f"{name} is compiled by torch.compile", trace.header["unseen"][0])
                self.assertEqual(len(trace.header["unseen"]), 1)

    def test_tensors_without_memory_are_told(self):
        trace = self.records(START + """
import os
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, distribute_module, init_device_mesh
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = distribute_module(nn.Linear(4, 2), init_device_mesh("cpu", (1,)))
        self.last = nn.Linear(4, 2)
    def forward(self, x): return self.last(x)
whole = Last()
optimizer = sgd(whole)
optimizer.zero_grad()
nn.functional.mse_loss(whole(x), y).backward()
optimizer.step()
""")
        self.assertEqual(trace.names(0, "weight"), ["last.weight", "last.bias"])
        self.assertIn("2 parameters of Last are DTensors", trace.header["unseen"][0])

    def test_batches_that_are_fetched_ahead_and_copied_are_all_counted(self):
        trace = self.records(START + """
import copy
loader = iter(torch.utils.data.DataLoader(x, batch_size=3))
optimizer = sgd(model)
for _ in range(2):
    ahead = [copy.deepcopy(next(loader)) for _ in range(2)]
    for batch in ahead: model(batch).sum().backward()
    optimizer.step()
""")
        self.assertEqual([trace.value(step, "samples", "ids") for step in (0, 1)],
                         [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])

    @unittest.skipIf(torch_is_before(6), "torch.distributed.fsdp has fully_shard from torch 2.6 on")
    def test_sharded_models_are_told_and_left_out(self):
        for wrap, owner in (("FullyShardedDataParallel(model, device_id=torch.device('cpu'))", "FSDP keeps parts"),
                            ("fully_shard(model, mesh=init_device_mesh('cpu', (1,)))", "are DTensors")):
            with self.subTest(owner):
                trace = self.records(START + f"""
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import init_device_mesh
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = {wrap}
optimizer = sgd(model)
for _ in range(2): update(optimizer, model)
dist.destroy_process_group()
""", folder=owner.replace(" ", "-"))
                self.assertIn(owner, trace.header["unseen"][0])
                self.assertTrue(trace.header["seen"]["ddp"]["sharded"])
                self.assertLessEqual({"input", "loss", "ledger", "rng"}, set(trace.steps[1]))
                self.assertFalse({"weight", "gradient", "optimizer", "buffer"} & set(trace.steps[1]))

    def test_a_sharded_optimizer_is_told(self):
        trace = self.records(IN_DDP + """
from torch.distributed.optim import ZeroRedundancyOptimizer
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
for _ in range(2): update(optimizer, model)
dist.destroy_process_group()
""")
        self.assertIn("ZeroRedundancyOptimizer", trace.header["unseen"][0])
        self.assertEqual(sorted(trace.steps), [-1, 0, 1])
        self.assertEqual(trace.names(1, "input"), ["input"])
        self.assertEqual(trace.names(1, "weight"), WEIGHTS)
        self.assertEqual(trace.value(1, "ledger", "learning_rate"), 0.1)
        self.assertNotIn("optimizer", trace.steps[1])

    def test_an_optimizer_in_an_optimizer_is_one(self):
        trace = self.records(START + """
class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
    def step(self, closure=None): return self.inner.step(closure)
optimizer = Lookahead(torch.optim.Adam(model.parameters()))
for _ in range(2): update(optimizer, model)
""")
        self.assertEqual(sorted(trace.steps), [-1, 0, 1])
        self.assertEqual(trace.names(1, "loss"), ["local"])
        self.assertIn("0.weight.exp_avg", trace.names(1, "optimizer"))
        self.assertIn("learning_rate", trace.names(1, "ledger"))

    def test_arguments_of_any_kind_have_names(self):
        trace = self.records(START + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.register_buffer("phases", torch.ones(2, dtype=torch.complex64))
    def forward(self, batch, *rest, scale=None, num_items_in_batch=None): return self.last(batch["x"]) * scale
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.125), capturable=False, foreach=False)
for _ in range(2):
    optimizer.zero_grad()
    output = model({"x": x}, 3, y, scale=torch.tensor(2.0), num_items_in_batch=24)
    nn.functional.mse_loss(output, y).backward()
    optimizer.step()
""")
        self.assertEqual(trace.names(1, "input"), ["batch.x", "2", "scale"])
        self.assertEqual(trace.record(1, "buffer", "phases")["shape"], [2, 2])
        self.assertEqual(trace.value(1, "ledger", "learning_rate"), 0.125)
        self.assertEqual(trace.value(1, "ledger", "num_items_in_batch"), 24)

    def test_loaders_with_workers_tell_ids_where_they_keep_the_order(self):
        for options, name in (("batch_size=4, persistent_workers=True", "ids"), ("batch_size=None", "ids"),
                              ("batch_size=4, in_order=False", "items")):
            if "in_order" in options and torch_is_before(6):
                continue  # no loader gives its batches out of order
            with self.subTest(options):
                trace = self.records(START + f"""
from torch.utils.data import DataLoader, TensorDataset
optimizer = sgd(model)
loader = DataLoader(TensorDataset(x, y), num_workers=2, {options})
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
""", folder=options.replace(" ", ""))
                taken = [trace.value(step, "samples", name) for step in sorted(trace.steps) if step >= 0]
                epoch = sum(taken[:len(taken) // 2], [])
                self.assertEqual(sorted(epoch), sorted(sum(taken[len(taken) // 2:], [])))
                self.assertEqual(len(set(epoch)), 12)
                if name == "ids":
                    self.assertEqual(epoch, list(range(12)))

    def test_a_second_training_goes_on_in_the_trace(self):
        trace = self.records(START + """
def train(model):
    optimizer = sgd(model)
    for _ in range(3): update(optimizer, model)
train(model)
other = nn.Linear(4, 2)
train(other)
""")
        self.assertEqual(sorted(trace.steps), list(range(-1, 6)))
        self.assertIn("model1.weight", trace.names(5, "weight"))

    def test_evaluation_is_no_part(self):
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
train, test = DataLoader(TensorDataset(x, y), 4, shuffle=True), DataLoader(TensorDataset(x, y), 6)
optimizer = sgd(model)
for epoch in range(2):
    for a, b in train:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a * 2), b).backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in test: model(a)
""")
        self.assertEqual(sorted(sum((trace.value(s, "samples", "ids") for s in range(3)), [])), list(range(12)))
        self.assertEqual([trace.value(s, "ledger", "epoch")[0] for s in range(6)], [0, 0, 0, 1, 1, 1])
        self.assertEqual(trace.names(0, "input"), ["input"])

    def test_batches_left_out_are_not_counted(self):
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
optimizer = sgd(model)
for i, (a, b) in enumerate(DataLoader(TensorDataset(x, y), 4)):
    if i == 0: continue
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a.clone()), b).backward()
    optimizer.step()
""")
        self.assertEqual(trace.value(0, "samples", "ids"), [4, 5, 6, 7])

    def test_batches_fetched_ahead_and_moved_are_known(self):
        """As accelerate does: the batch is moved to its device before the next one is fetched."""
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
def ahead(loader):
    iterator = iter(loader)
    now = [t.clone() for t in next(iterator)]
    for following in iterator:
        yield now
        now = [t.clone() for t in following]
    yield now
optimizer = sgd(model)
for epoch in range(2):
    for a, b in ahead(DataLoader(TensorDataset(x, y), 4)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a - 1), b).backward()
        optimizer.step()
""")
        self.assertEqual([trace.value(s, "samples", "ids")[0] for s in range(6)], [0, 4, 8, 0, 4, 8])
        self.assertEqual([trace.value(step, "ledger", "seen.waiting") for step in (2, 5)], [[0], [0]])

    def test_the_header_tells_of_the_loader_that_trains(self):
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
optimizer = sgd(model)
with torch.no_grad():
    for (a,) in DataLoader(TensorDataset(x[:5]), 2): model(a)
for a, b in DataLoader(TensorDataset(x, y), 4, shuffle=True):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
""")
        self.assertEqual(trace.header["samples"], 12)
        self.assertEqual(trace.header["seen"]["sampler"]["kind"], "random")

    def test_a_model_called_through_its_parts_has_the_loaders_input(self):
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
optimizer = sgd(model)
for a, b in DataLoader(TensorDataset(x, y), 4):
    optimizer.zero_grad()
    nn.functional.mse_loss(model[2](model[1](model[0](a))), b).backward()
    optimizer.step()
""")
        self.assertEqual(trace.names(0, "input"), ["batch.0", "batch.1"])
        self.assertEqual(trace.value(1, "samples", "ids"), [4, 5, 6, 7])

    def test_gradients_that_are_clipped_after_their_update_are_counted(self):
        trace = self.records(START + """
optimizer = sgd(model)
for step in range(6):
    optimizer.zero_grad(set_to_none=step % 2 == 1)
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    if step == 2:
        nn.utils.clip_grad_norm_(model.parameters(), 0.125)
    if step == 3:
        nn.utils.clip_grad_norm_(model.parameters(), 1e9)  # asks for the norm alone
""")
        count = len(trace.names(0, "gradient")) // 2
        self.assertEqual(trace.value(3, "ledger", "seen.clipped_late"), [count])
        for step in (0, 1, 2, 4, 5):
            self.assertNotIn("seen.clipped_late", trace.names(step, "ledger"))

    def test_clipping_that_is_meant_so_is_not_counted(self):
        trace = self.records(START + """
other = nn.Linear(4, 3)
optimizer, second = sgd(model), sgd(other)
for step in range(4):
    optimizer.zero_grad(set_to_none=False)
    second.zero_grad(set_to_none=False)
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    if step == 1:  # left out, and cleared in place
        optimizer.zero_grad(set_to_none=False)
        loss_of(model).backward()
    other(x).sum().backward()  # adds nothing to what was clipped
    optimizer.step()
    second.step()
""")
        for step in range(4):
            self.assertNotIn("seen.clipped_early", trace.names(step, "ledger"))
        trace = self.records(START + """
for parameter in model[0].parameters():
    parameter.requires_grad_(False)
optimizer = sgd(model)
for step in range(2):
    optimizer.zero_grad()
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model[0].parameters() if step == 0 else [p.data for p in model.parameters()], 0.01)
    optimizer.step()
""", "frozen")
        self.assertNotIn("seen.clips", trace.names(0, "ledger"))
        self.assertEqual(trace.value(1, "ledger", "seen.clipped"), [0])  # of copies: that is a mistake

    def test_gradients_that_are_used_again_are_counted(self):
        trace = self.records(START + """
optimizer = sgd(model)
loss_of(model).backward()
optimizer.step()
optimizer.step()
for parameter in model.parameters():
    parameter.grad = parameter.grad.clone()
optimizer.step()
for parameter in model.parameters():
    parameter.grad.add_(1)
optimizer.step()
""")
        self.assertEqual(trace.value(1, "ledger", "seen.reused"), [len(trace.names(0, "gradient"))])
        for step in (0, 2, 3):
            self.assertNotIn("seen.reused", trace.names(step, "ledger"))

    def test_gradients_that_are_left_or_clipped_early_are_counted(self):
        trace = self.records(START + """
optimizer = sgd(model)
for step, clears in enumerate([True, False, True, True]):
    if clears:
        optimizer.zero_grad(set_to_none=step % 2 == 1)  # in place, too
    loss_of(model).backward()
    if step == 3:
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss_of(model).backward()
    optimizer.step()
optimizer.zero_grad()
optimizer.step()
""")
        count = len(trace.names(0, "gradient"))
        self.assertEqual(trace.value(1, "ledger", "seen.left"), [count])
        self.assertEqual(trace.value(3, "ledger", "seen.clipped"), [count])
        self.assertEqual(trace.value(3, "ledger", "seen.clipped_early"), [count])
        self.assertEqual(trace.value(4, "ledger", "seen.idle_updates"), [1])
        for step in (0, 2, 3, 4):
            self.assertNotIn("seen.left", trace.names(step, "ledger"))

    def test_steps_of_schedules_modes_and_clipping_are_counted(self):
        trace = self.records(START + """
optimizer = sgd(model)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for step in range(3):
    optimizer.zero_grad()
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25 if step != 1 else float("inf"))
    if step == 2: nn.utils.clip_grad_value_(model.parameters(), clip_value=2)
    optimizer.step()
    for _ in range(2): schedule.step()
    if step == 0: model.eval()
""")
        self.assertEqual([trace.value(s, "ledger", "seen.schedule_steps") for s in range(3)], [[0], [2], [4]])
        self.assertEqual([trace.value(s, "ledger", "seen.training") for s in range(3)], [[1], [0], [0]])
        self.assertEqual(trace.value(0, "ledger", "seen.clips"), [1])
        self.assertEqual(trace.value(0, "ledger", "seen.clip_norm"), 0.25)
        self.assertFalse({"seen.clips", "seen.clip_norm"} & set(trace.names(1, "ledger")))
        self.assertEqual(trace.value(2, "ledger", "seen.clips"), [2])
        self.assertEqual(trace.value(2, "ledger", "seen.clip_value"), 2)

    def test_generators_that_nobody_draws_from_are_compared_where_they_are_asked_for(self):
        train = START + "optimizer = sgd(model)\n{}\nfor _ in range(2): update(optimizer, model)"
        for folder, draw in (("one", ""), ("other", "torch.rand(3)")):
            self.records(train.format(draw), folder)
        one, other = self.folder / "one", self.folder / "other"
        self.assertIn("all numbers are equal; generators differ", self.assert_agree(one, other))
        for channels in (["rng"], ["rng", "weight"]):
            named = [word for channel in channels for word in ("--channel", channel)]
            self.assertEqual(lockstep("diff", one, other, *named).returncode, 1, channels)

    def test_an_exit_at_once_ends_the_trace_but_under_an_error(self):
        train = START + "import os\noptimizer = sgd(model)\nfor _ in range(2): update(optimizer, model)\n"
        self.assertTrue(self.records(train + "if os.fork() == 0: os._exit(0)\nos.wait(); os._exit(0)").is_whole)
        thread = "import threading\nthreading.Thread(target=os._exit, args=(0,)).start()\n"
        for leave in ("try: 1 / 0\nexcept ZeroDivisionError: os._exit(0)", thread + "os.read(os.pipe()[0], 1)"):
            self.run_recorded(train + leave, "cut" + str(len(leave)))
            self.assert_torn(self.folder / ("cut" + str(len(leave))))

    def test_seeds_are_told_and_those_that_come_too_late(self):
        end = "\noptimizer = sgd(model)\nupdate(optimizer, model)"
        def seeds(text, folder):
            return self.records(text + end, folder).header["seen"]["seeds"]
        def torch_and_python(text, folder):
            said = seeds(text, folder)
            return said.get("cpu"), said["python"]
        seeded = "torch.manual_seed(0)"
        self.assertEqual(torch_and_python(START, "a"), ("set", "never"))
        unseeded = START.replace(seeded, "import random; random.seed(3)")
        self.assertEqual(torch_and_python(unseeded, "b"), ("never", "set"))
        late = f"torch.rand(1); {seeded}; import random; random.seed()"
        self.assertEqual(torch_and_python(START.replace(seeded, late), "c"), ("late", "never"))
        unknown = START.replace(seeded, "torch.default_generator.manual_seed(0)")
        self.assertEqual(torch_and_python(unknown, "d"), (None, "never"))
        for folder, said, text in (("e", "set", "np.random.seed(3)"), ("f", "never", "np.random.seed()"),
                                   ("g", "never", "np.random.rand()")):
            self.assertEqual(seeds(f"import numpy as np\n{text}\n" + START, folder)["numpy"], said)

    def test_checkpoints_read_before_the_first_update_are_told(self):
        trace = self.records(START + """
torch.save(model.state_dict(), "saved.pt")
model.load_state_dict(torch.load("saved.pt"))
optimizer = sgd(model)
update(optimizer, model)
torch.load("saved.pt")
""")
        [loaded] = trace.header["seen"]["loaded"]
        self.assertEqual(loaded["file"], "saved.pt")
        self.assertEqual(len(loaded["sha256"]), 64)

    def checkpoints(self, text, folder="run"):
        """What a script wrote and read: (what, updates, file, whether its content is known), and their digests."""
        self.records(START + "optimizer = sgd(model)\n" + text, folder)
        lines = (self.folder / folder / "checkpoints.rank0.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        return [(entry["what"], entry["updates"], os.path.basename(entry["file"]), entry["sha256"] is not None)
                for entry in entries], [entry["sha256"] for entry in entries]

    @unittest.skipIf(importlib.util.find_spec("safetensors") is None, "safetensors is not installed")
    def test_checkpoints_of_safetensors_are_told(self):
        told, digests = self.checkpoints("""
import safetensors.torch
from safetensors.torch import load_file, save_file
update(optimizer, model)
save_file(model.state_dict(), "a.safetensors")
update(optimizer, model)
safetensors.torch.save_model(model, filename="b.safetensors")
model.load_state_dict(load_file("a.safetensors"))
safetensors.torch.load_model(model, "b.safetensors")
""")
        self.assertEqual(told, [("written", 1, "a.safetensors", True), ("written", 2, "b.safetensors", True),
                                ("read", 2, "a.safetensors", True), ("read", 2, "b.safetensors", True)])
        self.assertEqual(digests[:2], digests[2:])
        self.assertEqual(len(set(digests)), 2)

    def test_checkpoints_in_folders_of_all_ranks_are_told(self):
        told, digests = self.checkpoints("""
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
state = {"model": model.state_dict()}
update(optimizer, model)
dcp.save(state, checkpoint_id="a")
update(optimizer, model)
dcp.save(state, storage_writer=dcp.FileSystemWriter("b"))
dcp.load(state, checkpoint_id="a")
dcp.load(state, storage_reader=dcp.FileSystemReader("b"))
dcp.async_save(state, checkpoint_id="c").result()
dist.destroy_process_group()
""")
        self.assertEqual(told, [("written", 1, "a", True), ("written", 2, "b", True), ("read", 2, "a", True),
                                ("read", 2, "b", True), ("written", 2, "c", False)])
        self.assertEqual(digests[:2], digests[2:4])
        self.assertEqual(len(set(digests[:2])), 2)

    @unittest.skipIf(importlib.util.find_spec("safetensors") is None, "safetensors is not installed")
    def test_checkpoints_that_cannot_be_told_are_named(self):
        """Its import imports torch, which calls the recorder before there is something to listen to."""
        script = self.script("from safetensors.torch import save_file\n" + START + """
optimizer = sgd(model)
update(optimizer, model)
save_file(model.state_dict(), "a.safetensors")
""")
        run = self.recorded([script])
        self.assertIn("safetensors.torch was imported before torch", Trace(run).header["unseen"][0])
        self.assertFalse((run / "checkpoints.rank0.jsonl").exists())

    def test_averages_of_weights_are_named_and_can_be_told(self):
        trace = self.records(START + """
import lockstep
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
optimizer = sgd(model)
for _ in range(2):
    update(optimizer, model)
    average.update_parameters(model)
    for name, parameter in average.module.named_parameters(): lockstep.record(name, parameter, channel="ema")
""")
        self.assertEqual(trace.names(1, "weight"), WEIGHTS)
        self.assertEqual(trace.names(1, "ema"), WEIGHTS)
        self.assertIn("AveragedModel keeps averages of weights", trace.header["unseen"][0])

    @unittest.skipIf(torch_is_before(8), "DDP's collectives are told from torch 2.8 on")
    def test_collectives_that_nobody_keeps_are_named(self):
        script = IN_DDP + """
{}
optimizer = sgd(model)
update(optimizer, model)
dist.destroy_process_group()
"""
        self.assertEqual(self.records(script.format("")).header["unseen"], [])
        other = self.records(script.format("dist.get_backend = lambda group=None: 'nccl'"), "other")
        self.assertIn("(backend nccl, torch", other.header["unseen"][0])

    def test_batches_left_out_where_others_are_changed_still_wait(self):
        trace = self.records(START + """
from torch.utils.data import DataLoader, TensorDataset
optimizer = sgd(model)
for i, (a, b) in enumerate(DataLoader(TensorDataset(x, y), 4)):
    if i == 0: continue
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a - 1), b).backward()
    optimizer.step()
""")
        self.assertEqual([trace.value(step, "ledger", "seen.waiting") for step in (0, 1)], [[1], [1]])

    def test_rates_and_hyperparameters_are_told_when_they_change(self):
        trace = self.records(START + """
optimizer = torch.optim.AdamW([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5}], lr=0.1)
for step in range(3):
    update(optimizer, model)
    if step == 0: optimizer.param_groups[1]["weight_decay"] = 0.25
    optimizer.param_groups[0]["lr"] /= 2
""")
        self.assertEqual([trace.value(s, "ledger", "learning_rate") for s in range(3)], [0.1, 0.05, 0.025])
        self.assertEqual(trace.value(2, "ledger", "learning_rate.1"), 0.5)
        self.assertEqual(trace.value(-1, "ledger", "betas.1"), 0.999)
        self.assertNotIn("weight_decay.1", trace.names(0, "ledger"))
        self.assertEqual(trace.value(1, "ledger", "weight_decay.1"), 0.25)
        self.assertNotIn("weight_decay.1", trace.names(2, "ledger"))

    def test_every_and_channels_choose(self):
        script = START + "optimizer = sgd(model)\nfor _ in range(5): update(optimizer, model)"
        trace = self.records(script, LOCKSTEP_RECORD_EVERY="2", LOCKSTEP_RECORD_CHANNELS="weight,ledger")
        self.assertEqual(sorted(trace.steps), [-1, 0, 2, 4])
        self.assertEqual(set(trace.steps[2]) - {"check"}, {"step", "weight", "ledger"})
        self.assertEqual(trace.value(4, "ledger", "updates"), [5])

    def test_weights_at_checkpoints_only(self):
        trace = self.records(START + """
optimizer = sgd(model)
for step in range(4):
    update(optimizer, model)
    if step % 2: torch.save(model.state_dict(), "model.pt")
""", LOCKSTEP_RECORD_WEIGHTS="checkpoints")
        self.assertEqual([step for step in trace.steps if "weight" in trace.steps[step]], [-1, 1, 3])
        self.assertEqual([step for step in trace.steps if "optimizer" in trace.steps[step]], [1, 3])
        self.assertIn("gradient", trace.steps[2])

    @unittest.skipIf(torch_is_before(8), "DDP's collectives are told from torch 2.8 on")
    def test_collectives_are_told_once(self):
        script = IN_DDP + """
import lockstep
optimizer = sgd(model)
for _ in range(3):
    update(optimizer, model)
    dist.all_reduce(torch.ones(7), op=dist.ReduceOp.MAX)
    with lockstep.off(): dist.all_reduce(torch.ones(5))
dist.destroy_process_group()
"""
        trace = self.records(script)
        for step in (0, 2):  # in the other the buckets are laid out anew
            self.assertEqual(trace.texts(step, "collective"), ["allreduce Float[7] MAX", "allreduce Float[23] SUM"])
        short = self.records(script, folder="short", TORCH_FR_BUFFER_SIZE="2")
        self.assertEqual(short.texts(2, "collective"), ["allreduce Float[7] MAX", "lost 1"])

    def test_controls_are_set_and_told(self):
        trace = self.records(IN_DDP + """
import time
assert model.bucket_bytes_cap == 4096 << 20
torch.set_num_threads(2)
optimizer = sgd(model)
begin = time.monotonic()
update(optimizer, model)
assert time.monotonic() - begin > 0.05
assert torch.get_num_threads() == 1
assert torch.are_deterministic_algorithms_enabled()
assert set(torch.empty(3 << 20, dtype=torch.uint8).tolist()) == {255 ^ 165}
dist.destroy_process_group()
""", LOCKSTEP_CONTROL='{"threads": 1, "deterministic": true, "bucket_mb": 4096, "step_delay_ms": [50], "fill": 165}')
        self.assertEqual(trace.header["controls"]["step_delay_ms"], [50])
        self.assertEqual(trace.header["environment"]["threads"], 1)
        self.assertEqual(trace.header["seen"]["ddp"]["bucket_mb"], 4096)

    def test_the_public_functions_record(self):
        trace = self.records(START + """
import lockstep
weight = torch.zeros(4, 2, requires_grad=True)
lockstep.record("begin", 1)
for i in range(2):
    lockstep.ids(torch.arange(12) + i)
    weight.grad = None
    (x @ weight - y).square().mean().backward()
    with torch.no_grad(): weight -= 0.1 * weight.grad
    lockstep.record("w", weight, channel="weight")
    lockstep.step()
    lockstep.record("accuracy", 0.5)
    lockstep.record("accuracy", 0.75)
    with lockstep.off():
        lockstep.record("hidden", 1)
""")
        self.assertEqual(trace.value(0, "samples", "ids"), list(range(12)))
        self.assertEqual(trace.names(1, "weight"), ["w"])
        self.assertEqual(trace.names(1, "metric"), ["accuracy", "accuracy#1"])
        self.assertEqual(trace.value(1, "metric", "accuracy#1"), 0.75)
        self.assertEqual(trace.value(1, "ledger", "updates"), [2])

    def test_steps_by_hand_outweigh_optimizers(self):
        trace = self.records(START + """
import lockstep
optimizer = sgd(model)
for _ in range(3):
    update(optimizer, model)
    update(optimizer, model)
    lockstep.step()
""")
        self.assertEqual(trace.value(max(trace.steps), "ledger", "updates"), [4])

    def test_an_evaluation_with_gradients_can_be_left_out(self):
        trace = self.records(START + """
import lockstep
optimizer = sgd(model)
for _ in range(2):
    update(optimizer, model)
    with lockstep.off(): loss_of(model).backward()
""")
        self.assertEqual(trace.names(1, "loss"), ["local"])
        self.assertEqual(trace.names(1, "input"), ["input"])

    def test_updates_that_are_left_out_are_counted_and_said(self):
        script = START + """
import contextlib, lockstep
optimizer = sgd(model)
for i in range({}):
    with lockstep.off() if i else contextlib.nullcontext(): update(optimizer, model)
"""
        for updates in (3, 6):
            trace = self.records(script.format(updates), folder=str(updates))
            self.assertEqual(trace.value(0, "ledger", "seen.muted"), [updates - 1])
        self.records(script.format(3), folder="again")
        self.assertIn("lockstep.off() left 2 updates out", self.assert_agree(self.folder / "3", self.folder / "again"))
        ended = lockstep("diff", self.folder / "3", self.folder / "6")
        self.assertEqual(ended.returncode, 4, ended.stdout)
        self.assertIn("lockstep.off() left 2 updates out of", ended.stdout)
        self.assertIn("left 5 updates out", lockstep("check", self.folder / "6").stdout)

    def test_channels_that_were_not_recorded_are_said(self):
        script = START + "update(sgd(model), model)"
        self.records(script, folder="all")
        self.records(script, folder="few", LOCKSTEP_RECORD_CHANNELS="loss,ledger,weight")
        said = self.assert_agree(self.folder / "all", self.folder / "few")
        self.assertIn("did not record it: samples, input, rng, gradient.local, gradient, optimizer", said)

    def test_modules_of_ones_own_are_listed(self):
        (self.folder / "helper.py").write_text("RATE = 0.1")
        (self.folder / "late.py").write_text("")
        script = START + "import helper; optimizer = sgd(model); update(optimizer, model); import late\n"
        trace = self.records(script, folder="before")
        self.assertEqual(len(trace.header["modules"]["helper.py"]), 64)
        self.assertFalse([path for path in trace.header["modules"] if "site-packages" in path or "torch" in path])
        self.assertEqual(len(trace.record(0, "ledger", "seen.module late.py")["text"]), 64)
        (self.folder / "helper.py").write_text("RATE = 0.2")
        self.records(script, folder="after")
        said = self.assert_agree(self.folder / "before", self.folder / "after")
        self.assertIn("modules of the program that differ: helper.py", said)

    def test_public_functions_do_nothing_without_recording(self):
        ended = self.run_recorded("""
import lockstep
lockstep.record("a", 1.0)
lockstep.ids([1])
lockstep.step()
with lockstep.off(): pass
import sys
assert "lockstep._install" not in sys.modules
""", LOCKSTEP_RECORD="")
        self.assertEqual(ended.exit_codes, [0], ended)
        self.assertFalse((self.folder / "run").exists())

    def test_nothing_of_the_model_is_touched(self):
        """Neither what is pickled nor what is copied knows of the recorder, and nothing is kept alive."""
        script = START + """
import copy, gc, weakref
optimizer = sgd(model)
update(optimizer, model)
torch.save(model, "model.pt")
torch.save(copy.deepcopy(model), "copy.pt")
torch.save(optimizer.state_dict(), "optimizer.pt")
gone = [weakref.ref(thing) for thing in (model, optimizer, *model.parameters())]
del model, optimizer
gc.collect()
assert not any(reference() is not None for reference in gone), gone
"""
        self.records(script)
        names = ("model.pt", "copy.pt", "optimizer.pt")
        recorded = {name: (self.folder / name).read_bytes() for name in names}
        plain = self.run_recorded(script, LOCKSTEP_RECORD="")
        self.assertEqual(plain.exit_codes, [0], plain)
        for name in names:
            self.assertEqual(recorded[name], (self.folder / name).read_bytes(), name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
