"""Control runs of torch programs: float64 settles a small mistake, another fill names memory that nobody wrote."""

import json
import subprocess
import sys
import unittest

from programs import LOCKSTEP, ProgramTest, environment

#: Amplifies what rounds, so that float32 alone does not decide. In two parts the same is computed, but for rounding.
WAVES = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--parts", type=int)
parser.add_argument("--dtype", default="float32")
parser.add_argument("--factor", type=float, default=1)
asked = parser.parse_args()
parts, dtype = asked.parts, getattr(torch, asked.dtype)
torch.manual_seed(0)
x, y = (torch.rand(12, 64) - 0.5).to(dtype), (0.3 * (torch.rand(12, 1) - 0.5)).to(dtype)
class Waves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 1, bias=False)
    def forward(self, x): return torch.sin(20 * self.inner(x)) / 20
model = Waves().to(dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=0.9)
for step in range(16):
    optimizer.zero_grad()
    for some, wanted in zip(x.chunk(parts), y.chunk(parts)):
        (torch.nn.functional.mse_loss(model(some), wanted) / parts).backward()
    model.inner.weight.grad[0, 1] *= asked.factor if parts > 1 else 1
    optimizer.step()
"""

#: Adds to a gradient what a block of memory held before.
FRESH = """
import time, torch
torch.manual_seed(0)
x, model = torch.randn(12, 8), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    if step == 2:
        # Many: which of them get used memory again depends on all that was allocated before.
        used = [torch.full((1000,), time.time_ns() // 1000 % 251, dtype=torch.uint8) for _ in range(64)]
        del used
        fresh = [torch.empty(1000, dtype=torch.uint8) for _ in range(64)]
        model.weight.grad[0, 3] += 1e-6 * sum(int(tensor[500]) for tensor in fresh)
    optimizer.step()
"""


class ControlTest(ProgramTest):
    """Each takes a dozen trainings or more."""

    PARTS = 6

    def judged(self, script, code, that, one, other, **program):
        self.script(script)
        variants = {name: {"program": {"arguments": words}} for name, words in (("one", one), ("other", other))}
        document = {"name": "own", "description": "A script under control runs.", "world_size": 1,
                    "program": {"command": [sys.executable, "train.py"], **program},
                    "variants": variants, "checks": [{"that": that, "variants": ["one", "other"]}]}
        (self.folder / "own.json").write_text(json.dumps(document))
        ended = subprocess.run([str(LOCKSTEP), "run", "own.json", "--json", "-"], cwd=self.folder, capture_output=True,
                               text=True, env=environment())
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return json.loads(ended.stdout)["checks"][0]

    def in_parts(self, code, factor):
        return self.judged(WAVES, code, "rounding", {"--parts": 1}, {"--parts": 2, "--factor": factor},
                           float64={"arguments": {"--dtype": "float64"}})

    def test_a_mistake_stays_in_float64(self):
        self.assertIn("it is not rounding", str(self.in_parts(1, factor=1 + 2**-12)["experiments"]))

    def test_rounding_shrinks_in_float64(self):
        shown = [one["shows"] for one in self.in_parts(0, factor=1)["experiments"] if one["control"] == "float64"]
        self.assertEqual(shown, ["every difference shrinks like rounding"])

    def test_memory_that_nobody_wrote_is_named(self):
        found = self.judged(FRESH, 1, "equal", {}, {"--other": 1})
        self.assertEqual((found["class"], found["cause"]), ("nondeterminism", "mem.uninitialised"))
        self.assertEqual(found["first_divergence"]["step"], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
