"""`lockstep audit scaling` on a script that its options change: as it is, and with mistakes of scaling."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, chosen_part, environment, missing, write_images

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

    def test_ranks_that_augment_their_samples_are_no_mistake(self):
        """By the generator that LOCKSTEP_TEST_PART ("2/6") chooses; without it by all."""
        torch_s, python_s = "torch.randn(10)", "__import__('random').random()"
        loader = {"DataLoader(dataset": "DataLoader(dataset, num_workers=1"}
        forms = [(torch_s, {}, "draw random numbers"), (python_s, {}, "other tensors"),
                 (torch_s, loader, "other tensors")]
        for noise, script, because in forms[chosen_part(most=len(forms))]:
            with self.subTest(noise=noise, script=script):
                noisy = f"        x, y = self.data[index]\n        return x + 0.1 * {noise}, y"
                lines = self.audited({}, ranks=(1, 2), only=["one-batch"],
                                     script={"        return self.data[index]": noisy, **script})
                self.assertEqual(lines["one-batch@2"]["answer"], "no identity", lines)
                self.assertIn(because, lines["one-batch@2"]["because"])

    def test_an_option_that_the_scenario_does_not_give_is_refused(self):
        said = self.audited({}, {"rank_batch": "--batchsize"}, code=2)
        self.assertIn("did you mean '--batch-size'?", said)
        said = self.audited({}, {"batch": "--batch-size"}, code=2)
        self.assertIn("unknown place of a recipe: 'batch'", said)

    #: Real launchers: options of torchrun, promises, the program's options, and what the first sentence must say.
    LAUNCHED = {
        "ddp_tutorial": (True, PROMISES, {"--epochs": 1000, "--snapshot": "{folder}/snapshot.pt", "--batch-size": 12,
                                          "--lr": 0.05}, "--batch-size",
                         "Keep 3 a rank: equal up to rounding, tested."),
        "accelerate_cv": (True, {"sampler": {"kind": "accelerate"}, "batch": {"per_rank": 4}, "data": {"samples": 64}},
                          {"--data_dir": "{images}/pets", "--output_dir": "{folder}", "--num_epochs": 100,
                           "--batch_size": 4}, "--batch_size",
                          "Dividing the batch does not keep it: whole batches are dealt out to the ranks"),
        "lightning_fit": (False, {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 16, "accumulation": 2}},
                          {"--max-epochs": 100, "--batch-size": 8}, "--batch-size",
                          "Dividing the batch does not keep it: batch normalization takes the statistics"),
    }

    def test_a_long_program_has_its_answer_by_three_short_runs(self):
        for program in list(self.LAUNCHED)[chosen_part(most=len(self.LAUNCHED))]:
            with self.subTest(program=program):
                self.audited_as_launched(program, *self.LAUNCHED[program])

    def audited_as_launched(self, program, by_torchrun, promises, arguments, batch, says):
        if missing(program):
            self.skipTest(f"{program} needs {', '.join(missing(program))}")
        script = str(HERE / program / "train.py")
        flags = {"accelerate_cv": ["--cpu"], "lightning_fit": ["--devices", "{world_size}"]}.get(program, [])
        if "--data_dir" in arguments:
            write_images(self.folder / "images")
            arguments = {**arguments, "--data_dir": str(self.folder / "images/pets")}
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "{world_size}"]
        (self.folder / "own.json").write_text(json.dumps({
            "name": "own", "description": "A training of another project.", "promises": promises,
            "program": {"command": [sys.executable, *(launcher if by_torchrun else []), script, *flags],
                        "arguments": arguments}, "checks": [{"that": "laws"}]}))
        (self.folder / "audit.json").write_text(json.dumps({
            "audit": "scaling", "description": "On more ranks.", "scenario": "own.json",
            "options": {"rank_batch": batch}}))
        ended = subprocess.run([str(LOCKSTEP), "audit", "scaling", "audit.json", "--ranks", "1,4"], cwd=self.folder,
                               capture_output=True, text=True, env=environment())
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        first = ended.stdout.partition("\n")[0]
        self.assertIn("4 ranks: another training. It changes samples in an update ", first)
        self.assertIn(says, first)
        self.assertIn("run 3 of 3", ended.stderr)
        answered = ended.stderr.index("lockstep: holds        laws@1: 1 rank: the laws of one run hold")
        self.assertLess(answered, ended.stderr.index("run 3 of 3"), "answers come as runs end")


if __name__ == "__main__":
    unittest.main()
