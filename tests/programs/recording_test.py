"""What recorded programs leave: names, channels and steps, and nothing where nothing trains."""

import json
import subprocess
import sys
import unittest

import torch  # once: a script runs in a fork of this process

from programs import HERE, ProgramTest, Trace, environment, free_port, lockstep, recording, torch_is_before


class RecordingTest(ProgramTest):
    def test_torchrun_records_an_unchanged_script(self):
        for folder in ("one", "two"):
            directory = self.folder / f"work-{folder}"
            directory.mkdir()
            ended = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                 str(free_port()), str(HERE / "ddp_tutorial/train.py"), "--epochs", "2"], cwd=directory,
                env=environment(**recording(self.folder / folder)), capture_output=True, text=True)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            self.assertEqual(sorted(path.name for path in (self.folder / folder).iterdir()),
                             ["checkpoints.rank0.jsonl", "rank0.jsonl", "rank0.progress", "rank1.jsonl",
                              "rank1.progress"])
        self.assertIn("agree: ", self.assert_agree(self.folder / "one", self.folder / "two"))
        trace = Trace(self.folder / "one", 1)
        self.assertTrue(trace.is_whole)
        self.assertEqual(sorted(trace.steps), list(range(-1, 18)))
        self.assertEqual(trace.names(-1, "weight"), ["net1.weight", "net1.bias", "net2.weight", "net2.bias"])
        for channel in ("gradient", "weight"):
            self.assertEqual(trace.names(0, channel), trace.names(-1, "weight"))
        self.assertEqual(sorted(trace.names(0, "gradient.local")), sorted(trace.names(-1, "weight")))
        self.assertEqual(trace.names(0, "optimizer")[0], "net1.weight.momentum_buffer")
        self.assertEqual(trace.names(0, "input"), ["x"])
        self.assertEqual(trace.names(0, "loss"), ["local"])
        self.assertEqual(trace.value(17, "ledger", "updates"), [18])
        self.assertEqual(trace.value(17, "ledger", "epoch"), [1])
        self.assertEqual(trace.value(-1, "ledger", "momentum"), 0.9)
        for step in range(18):  # of DDP: gradients are reduced at once; its buckets are laid out anew after the first
            sent = trace.texts(step, "collective")
            layout = [text for text in sent if text.startswith("broadcast Int[")]
            reduced = [] if torch_is_before(8) else ["allreduce Float[165] SUM"]
            self.assertEqual([text for text in sent if text not in layout], reduced)
            self.assertEqual(len(layout) > 0, step == 1 and not torch_is_before(8), sent)
        written = json.loads((self.folder / "one/checkpoints.rank0.jsonl").read_text())
        self.assertEqual((written["what"], written["updates"]), ("written", 9))
        torn = self.folder / "two/rank1.jsonl"
        lines = torn.read_text().splitlines(keepends=True)
        for kept in (1, 2, 3, 12):  # the other rank's trace is whole
            torn.write_text("".join(lines[:kept]))
            for sides in (("one", "two"), ("two", "one")):
                ended = lockstep("diff", *(self.folder / side for side in sides))
                self.assertEqual(ended.returncode, 4, ended.stdout)
                self.assertIn("the recording ends here: what follows is unknown", ended.stdout)
                for named in ("  class  ", "  because  ", "data."):
                    self.assertNotIn(named, ended.stdout)

    def test_a_wrong_rate_is_found(self):
        healthy = self.recorded([HERE / "ddp_tutorial/train.py", "--epochs", "1"], folder="healthy")
        (self.folder / "snapshot.pt").unlink()
        faulty = self.recorded([HERE / "ddp_tutorial/train.py", "--epochs", "1", "--lr", "0.1"], folder="faulty")
        ended = lockstep("diff", healthy, faulty)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("step 0", ended.stdout)
        self.assertIn("weight", ended.stdout)

    def test_a_checkpoint_that_holds_other_weights_than_were_trained_is_found(self):
        script = """
import sys, torch
torch.manual_seed(1)
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
CHANGE
torch.save({"model": net.state_dict(), "when": WHEN}, NAME)
"""
        for folder, change in (("a", ""), ("b", ""), ("bug", "with torch.no_grad(): net.weight.mul_(2)")):
            text = script.replace("CHANGE", change).replace("WHEN", repr(folder)).replace("NAME", repr(folder + ".pt"))
            self.records(text, folder=folder)
        self.assert_agree(self.folder / "a", self.folder / "b")
        ended = lockstep("diff", self.folder / "a", self.folder / "bug")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("step 2, in the checkpoint a.pt, rank 0", ended.stdout)
        self.assertIn("tensor model.weight: digest", ended.stdout)

    def test_passes_that_no_update_follows_are_compared(self):
        script = """
import torch
torch.manual_seed(1)
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(5):
    (net(torch.ones(8, 4) * (1 if i < 4 else LAST)).square().mean() / 2).backward()
    if i % 2: optimizer.step(); optimizer.zero_grad()
net(torch.ones(8, 4))
"""
        for folder, last in (("a", 1), ("b", 1), ("bug", 2)):
            trace = self.records(script.replace("LAST", str(last)), folder=folder)
            self.assertEqual(sorted(trace.steps), [-1, 0, 1])
        self.assert_agree(self.folder / "a", self.folder / "b")
        ended = lockstep("diff", self.folder / "a", self.folder / "bug")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("step 2, in passes that no update follows, rank 0", ended.stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
