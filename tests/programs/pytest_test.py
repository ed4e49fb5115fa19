"""The pytest plugin: green only where every check holds."""

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, PACKAGE, ProgramTest, chosen_part, environment

EXAMPLE = HERE.parents[1] / "docs/examples/test_training.py"
DIGITS = HERE.parents[1] / "scenarios/data/digits.csv.gz"

#: Tests of people whose trainings have mistakes. Each must fail.
MISTAKES = """
import pytest
import torch.distributed as dist
from test_training import PROMISES, train
from torch.utils.data import RandomSampler

def rate_times_ranks(lr=0.1):
    train(lr=lr * dist.get_world_size())

def not_sharded():
    import test_training
    class Sampler(RandomSampler):
        def set_epoch(self, epoch): pass
    test_training.DistributedSampler = Sampler
    train()

def crashes():
    train(epochs=1)
    if dist.get_rank() == 1: raise OSError("the disk of rank 1 is full")

def trains_nothing(): pass

@pytest.mark.lockstep(promises=PROMISES)
class TestMistakes:
    def test_rate(self, lockstep): lockstep.check("ledger", lockstep.variant(rate_times_ranks))
    def test_samples(self, lockstep):
        lockstep.check({"that": "ranks_differ", "on": ["samples"]}, lockstep.variant(not_sharded))
    def test_crash(self, lockstep): lockstep.check("ranks_agree", lockstep.variant(crashes))
    def test_nothing(self, lockstep): lockstep.check("ranks_agree", lockstep.variant(trains_nothing))

def test_two(lockstep): lockstep.check("differs", lockstep.variant(train, lr=0.1), lockstep.variant(train))
def test_promise(lockstep): lockstep.check("covers", lockstep.variant(train))
def test_local(lockstep): lockstep.check("ranks_agree", lockstep.variant(lambda: None))
def test_without(lockstep): lockstep.check("ranks_agree")
@pytest.mark.lockstep(worldsize=2)
def test_marker(lockstep): pass
"""

#: Of each: what its report says.
EXPECTED = {
    "test_rate": ["DIVERGENCE  test_rate: checks.0 ledger", "cause       lr."],
    "test_crash": ["the disk of rank 1 is full", "INCONCLUSIVE  test_crash: checks.0 ranks_agree"],
    "test_samples": ["DIVERGENCE  test_samples: checks.0 ranks_differ", "cause       data.not_sharded"],
    "test_promise": ["INCONCLUSIVE  test_promise: checks.0 covers", "promises.sampler"],
    "test_nothing": ["INCONCLUSIVE  test_nothing: checks.0 ranks_agree"],
    "test_local": ["is no function at the top of a module"],
    "test_two": ["DIVERGENCE  test_two: checks.0 differs"],
    "test_without": ["check() needs a variant"],
    "test_marker": ["pytest.mark.lockstep knows world_size, ", "not worldsize"],
}


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed (ci/setup --tests)")
class PytestTest(ProgramTest):
    def setUp(self):
        super().setUp()
        shutil.copy(EXAMPLE, self.folder)

    def pytest(self, *words):
        by_hand, path = ["-p", "lockstep.pytest_plugin"], {"PYTHONPATH": str(PACKAGE)}
        if importlib.metadata.entry_points(group="pytest11", value="lockstep.pytest_plugin"):  # that of the wheel
            by_hand, path = [], {}
        return subprocess.run([sys.executable, "-m", "pytest", *by_hand, "-p", "no:cacheprovider", "-rA", "--basetemp",
                               str(self.folder / "tmp"), *words], cwd=self.folder, text=True, capture_output=True,
                              env=environment(**path))

    def test_the_example_is_green(self):
        ended = self.pytest("test_training.py")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("2 passed", ended.stdout)

    def test_every_mistake_is_red_with_its_verdict(self):
        (self.folder / "test_mistakes.py").write_text(MISTAKES)
        chosen = list(EXPECTED)[chosen_part(most=6)]
        said = self.pytest("test_mistakes.py", "-k", " or ".join(chosen)).stdout
        self.assertNotIn("passed", said.splitlines()[-1], said)
        reports = re.split(r"^_{3,} ", said, flags=re.MULTILINE)
        for name in chosen:
            report = next((report for report in reports if name in report.partition("\n")[0]), "")
            for part in EXPECTED[name]:
                with self.subTest(name):
                    self.assertIn(part, report, said)

    @unittest.skipUnless(LOCKSTEP.with_name("lockstep-worker").exists(), "the worker is not built")
    def test_scenarios_beside_the_tests_are_collected(self):
        train = {"model": {"kind": "linear"}, "data": {"kind": "digits", "path": str(DIGITS), "size": 24},
                 "batch": {"global": 12}, "optimizer": {"kind": "sgd", "lr": 0.1}, "steps": 2}
        variants = {"one": {}, "other": {}}
        scenario = {"name": "pair", "description": "Two trainings.", "world_size": 2, "train": train,
                    "variants": variants, "checks": [{"that": "equal", "variants": ["one", "other"]}]}
        (self.folder / "same.lockstep.json").write_text(json.dumps(scenario))
        variants["other"] = {"train": {"optimizer": {"lr": 0.2}}}
        (self.folder / "rate.lockstep.jsonc").write_text("// red\n" + json.dumps(scenario))
        (self.folder / "wrong.lockstep.json").write_text("{")
        (self.folder / "other.json").write_text("{")
        ended = self.pytest("--ignore=test_training.py", "--junitxml=results.xml", "-o", "junit_logging=all")
        self.assertIn("PASSED same.lockstep.json::same", ended.stdout)
        self.assertIn("FAILED rate.lockstep.jsonc::rate", ended.stdout)
        self.assertIn("FAILED wrong.lockstep.json::wrong", ended.stdout)
        self.assertIn("2 failed, 1 passed", ended.stdout)
        results = (self.folder / "results.xml").read_text()
        for text in ("agree: 1 scenario, 2 of 2 runs finished", "DIVERGENCE  pair: checks.0 equal (one, other)",
                     "not valid JSON"):
            self.assertIn(text, results)


if __name__ == "__main__":
    unittest.main(verbosity=2)
