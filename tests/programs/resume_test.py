"""A recorded training that goes on from a checkpoint, held against the one that never stopped."""

import json
import shutil
import unittest

import torch  # once: the scripts run in forks of this process

from programs import ProgramTest, lockstep

#: Four epochs of four updates; a checkpoint after the second. Generators are restored where their loader has drawn.
TRAIN = """
import os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
lost = os.environ.get("LOSE", "")
torch.manual_seed(0)
x, y = torch.randn(24, 6), torch.randn(24, 1)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
begin = 0
saved = torch.load("state.pt") if os.environ.get("RESUME") else None
if saved:
    model.load_state_dict(saved["model"])
    if lost != "momentum": optimizer.load_state_dict(saved["optimizer"])
    if lost != "position": begin = saved["epoch"] + 1
    if lost != "generator": torch.set_rng_state(saved["generator"])
    if lost == "buffers": model[1].reset_running_stats()
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5 ** epoch)
if saved and lost != "schedule":
    schedule.load_state_dict(saved["schedule"])
    optimizer.param_groups[0]["lr"] = schedule.get_last_lr()[0]
for epoch in range(begin, 4):
    order = torch.Generator().manual_seed(epoch)
    for a, b in DataLoader(TensorDataset(x, y), 6, shuffle=True, generator=order):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    schedule.step()
    if epoch == 1 and not saved:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "schedule": schedule.state_dict(), "generator": torch.get_rng_state()}, "state.pt")
"""


class ResumeTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.records(TRAIN, "straight")

    def diff(self, *options):
        ended = lockstep("diff", self.folder / "straight", self.folder / "resumed", *options, "--json", "-")
        return ended.returncode, json.loads(ended.stdout)

    def test_what_was_lost_is_named(self):
        """Tests of one recording, for a straight one takes as long as all of these together."""
        for lost, step, channel, cause in (("", None, None, None),
                                           ("momentum", 7, "optimizer", "ckpt.opt_not_applied"),
                                           ("generator", 8, "rng", "ckpt.rng_missing"),
                                           ("schedule", 8, "weight", "ckpt.schedule_missing"),
                                           ("position", 8, "samples", "data.resume_restart"),
                                           ("buffers", 7, "buffer", "ckpt.buffers_missing")):
            with self.subTest(lost or "nothing"):
                self.records(TRAIN, "resumed", RESUME="1", LOSE=lost)
                code, found = self.diff()
                self.assertIn("resumed begins with the weights that", found["why"])
                self.assertIn("straight has after step 7", found["why"])
                at = found["first_divergence"]
                self.assertEqual((code, at and at["step"], at and at["channel"], found["cause"]),
                                 (1 if lost else 0, step, channel, cause))
                shutil.rmtree(self.folder / "resumed")

    def test_its_checkpoint_tells_the_place_where_no_weights_are_recorded(self):
        self.records(TRAIN, "resumed", RESUME="1", LOCKSTEP_RECORD_CHANNELS="samples,rng,loss,gradient,ledger")
        code, found = self.diff("--channel", "loss", "--channel", "gradient")
        self.assertIn("reads the checkpoint that", found["why"])
        self.assertEqual(code, 0, found)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
