"""`--stop-after`: a program ends after so many updates, on all ranks, with the trace that it would have had so far."""

import json
import subprocess
import sys
import unittest

from clean import PROGRAMS
from programs import HERE, LOCKSTEP, ProgramTest, Trace, chosen_part, environment, filled, missing, write_images

AFTER = 3
#: These start their ranks themselves, or have one.
WITHOUT_LAUNCHER = ("single", "gan", "lightning_fit")


class StopTest(ProgramTest):
    def recorded_by_lockstep(self, name, *options, words, ranks, code=0):
        """Under torchrun, or as the program starts itself. Returns what was said."""
        launcher = [] if ranks == 0 else ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone"]
        place = self.folder / f"work-{name}"
        place.mkdir()
        ended = subprocess.run([str(LOCKSTEP), "record", "--out", str(self.folder / name), *options, "--",
                                sys.executable, *launcher, *map(str, words)], cwd=place, text=True,
                               capture_output=True, env=environment(), timeout=600)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stderr

    def test_each_program_stops_as_it_began(self):
        """Of the programs, those that LOCKSTEP_TEST_PART chooses; without it all."""
        names = sorted(PROGRAMS)
        images = write_images(self.folder / "images")
        for name in names[chosen_part(most=len(names))]:
            if missing(name):
                continue
            with self.subTest(name):
                words = [HERE / name / "train.py", *filled(PROGRAMS[name]["arguments"], images=images,
                                                           folder=self.folder / f"work-{name}", port=0)]
                ranks = 0 if name in WITHOUT_LAUNCHER else PROGRAMS[name]["world_size"]
                said = self.recorded_by_lockstep(name, "--stop-after", str(AFTER), words=words, ranks=ranks)
                self.assertEqual(said.count(f"lockstep: stopped after {AFTER} updates"), 1, said)
                words = [str(word).replace(f"work-{name}", f"work-{name}-whole") for word in words]
                self.recorded_by_lockstep(f"{name}-whole", words=words, ranks=ranks)
                for rank in range(PROGRAMS[name]["world_size"]):
                    stopped = Trace(self.folder / name, rank)
                    self.assertTrue(stopped.is_whole)
                    self.assertEqual(max(stopped.steps), AFTER - 1)
                    whole = Trace(self.folder / f"{name}-whole", rank)
                    for step in stopped.steps:
                        self.assertEqual(stopped.steps[step], whole.steps[step], f"rank {rank}, step {step}")

    def test_nothing_that_ends_a_training_runs(self):
        """A script that saves what it has when it is left would take six updates for the whole training."""
        script = self.script("""
import atexit, torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(800, 4), batch_size=8, num_workers=1)
atexit.register(print, "left by itself")
try:
    for batch in data:
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()
finally:
    torch.save(net.state_dict(), "checkpoint.pt")
""")
        said = self.recorded_by_lockstep("short", "--stop-after", "6", "--every", "4", words=[script], ranks=0)
        self.assertIn("stopped after 6 updates", said)
        self.assertEqual(list((self.folder / "work-short").iterdir()), [])
        trace = Trace(self.folder / "short")
        self.assertEqual([step for step in trace.steps if "weight" in trace.steps[step]], [-1, 0, 4])
        said = self.recorded_by_lockstep("long", "--stop-after", "1000", words=[script], ranks=0)
        self.assertNotIn("stopped after", said)
        self.assertEqual(max(Trace(self.folder / "long").steps), 99, "it ended by itself")

    def test_a_rank_that_does_not_come_is_named(self):
        script = self.script("""
import os, time, torch, torch.distributed as dist
from lockstep import _stop
_stop.meet.__defaults__ = (1.0,)
dist.init_process_group("gloo")
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    if dist.get_rank() == 1 and _ == 2:
        time.sleep(4)
        os._exit(0)
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
""")
        said = self.recorded_by_lockstep("alone", "--stop-after", "2", words=[script], ranks=2, code=4)
        self.assertIn("not all of the 2 ranks came to that within 1 s", said)
        failure = json.loads((self.folder / "alone/rank0.failure.json").read_text())
        self.assertIn("the training is to stop after 2 updates", failure["what"])


if __name__ == "__main__":
    unittest.main()
