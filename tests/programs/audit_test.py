"""`lockstep audit scaling` on a script that its options change: as it is, and with mistakes of scaling."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, chosen_part, environment

SCRIPT = (HERE / "ddp_tutorial/train.py").read_text()
PROMISES = {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 12}, "data": {"samples": 144},
            "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}, "schedule": {"kind": "constant"}}
BACKWARD, RATE, SAMPLER = "loss.backward()", "lr=args.lr", "DistributedSampler(dataset)"


class AuditTest(ProgramTest):
    def audited(self, findings, options=None, *, code=0, only=(), ranks=(1, 2, 3), samples=144,
                **changes):
        """The answers by line. `changes`: of the script."""
        text = SCRIPT
        for old, new in changes.get("script", {}).items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        (self.folder / "train.py").write_text(text)
        (self.folder / "own.json").write_text(json.dumps({
            "name": "own", "description": "A tutorial's training.",
            "promises": {**PROMISES, "data": {"samples": samples}},
            "program": {"command": ["python", str(HERE / "start.py"), "{world_size}", "train.py"],
                        "arguments": {"--epochs": 1, "--snapshot": "{folder}/snapshot.pt", "--batch-size": 12,
                                      "--lr": 0.05}},
            "checks": [{"that": "reduction"}]}))
        (self.folder / "audit.json").write_text(json.dumps({
            "audit": "scaling", "description": "A tutorial on more ranks.", "scenario": "own.json", "ranks": ranks,
            "only": list(only),
            "options": options or {"rank_batch": "--batch-size", "rate": "--lr"}, "findings": findings}))
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        out = self.folder / "out.json"
        ended = subprocess.run([str(LOCKSTEP), "audit", "scaling", "audit.json", "--json", out.name], cwd=self.folder,
                               capture_output=True, text=True, env=environment(PATH=path))
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return {line["id"]: line for line in json.loads(out.read_text())["lines"]} if out.exists() else ended.stderr

    def test_the_batch_of_each_rank_changes_and_the_identity_holds(self):
        lines = self.audited({"global-batch": "changes"}, only=["global-batch", "one-batch", "reduction",
                                                             "per-rank-batch.linear"])
        self.assertEqual(lines["global-batch"]["values"], ["12", "24", "36"])
        for ranks in (2, 3):
            self.assertIn(lines[f"one-batch@{ranks}"]["answer"], ("identical", "rounding"))
            self.assertEqual(lines[f"reduction@{ranks}"]["answer"], "holds")
            self.assertEqual(lines[f"per-rank-batch.linear.sampler@{ranks}"]["answer"], "empirical")

    def test_padding_at_an_epochs_end_is_no_mistake(self):
        """Runs stop before. A whole one, of 400 epochs, would take minutes."""
        lines = self.audited({}, ranks=(1, 2), only=["one-batch"], samples=145,
                             script={"MyTrainDataset(144)": "MyTrainDataset(145)", "default=4": "default=400",
                                     "args.epochs": "400"})
        self.assertIn(lines["one-batch@2"]["answer"], ("identical", "rounding"))

    def test_mistakes_of_scaling_break_the_identity(self):
        """The one that LOCKSTEP_TEST_PART ("2/6") chooses; without it all."""
        by_ranks = "dist.get_world_size()"
        mistakes = [({BACKWARD: f"(loss / {by_ranks}).backward()"}, ""), ({RATE: f"{RATE} * {by_ranks}"}, ""),
                    ({SAMPLER: "DistributedSampler(dataset, 1, 0)"}, "data.not_sharded")]
        for script, cause in mistakes[chosen_part(most=len(mistakes))]:
            with self.subTest(script=script):
                lines = self.audited({}, code=1, ranks=(1, 2), only=["one-batch"], script=script)
                self.assertEqual(lines["one-batch@2"]["answer"], "broken", lines)
                self.assertTrue(lines["one-batch@2"]["cause"].startswith(cause), lines)

    def test_an_option_that_the_scenario_does_not_give_is_refused(self):
        said = self.audited({}, {"rank_batch": "--batchsize"}, code=2)
        self.assertIn("did you mean '--batch-size'?", said)
        said = self.audited({}, {"batch": "--batch-size"}, code=2)
        self.assertIn("unknown place of a recipe: 'batch'", said)


if __name__ == "__main__":
    unittest.main()
