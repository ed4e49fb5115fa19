"""FSDP2 as Lightning, accelerate and Hugging Face's Trainer make it: beside DDP, unrecorded, and with mistakes."""

import contextlib
import importlib
import os
import re
import sys
import tempfile
import unittest

import torch  # noqa: F401  (once: the ranks run in forks of this process)
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.tensor.parallel  # noqa: F401

from programs import HERE, ProgramTest, Trace, absent, filled, free_port, lockstep, start_here, torch_is_before

FOLDER = HERE / "layouts_frameworks"
LIGHTNING, ACCELERATE, TRAINER = (FOLDER / f"{name}.py" for name in (
    "lightning_model_parallel", "accelerate_fsdp2", "trainer_fsdp2"))

for module in ("lightning.pytorch", "accelerate", "transformers.trainer"):
    with contextlib.suppress(ImportError):
        importlib.import_module(module)


def needs(*packages):
    return unittest.skipIf(torch_is_before(11) or absent(packages), "needs torch 2.11, " + ", ".join(packages))


class FrameworksTest(ProgramTest):
    def trained(self, script, folder, *arguments, ranks=2):
        """Trains; it has to end well. `folder`: of the trace; none: no trace. Returns a digest of the weights."""
        common = {"LOCKSTEP_RECORD": str(self.folder / folder) if folder else "", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        with tempfile.TemporaryFile("w+") as out:
            started = [start_here(script, self.folder, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, out, out,
                                  arguments) for rank in range(ranks)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in started]
            out.seek(0)
            said = out.read()
        self.assertEqual(codes, [0] * ranks, said)
        return re.search(r"^weights (\w{64})$", said, re.M)[1]

    def assert_keeps_laws(self, folder):
        said = lockstep("check", self.folder / folder)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        for law in ("usage", "state", "update", "ranks", "shares", "finite"):
            self.assertRegex(said.stdout, rf"\n  {law} +holds", folder)

    def assert_like_ddp(self, script, sharded, *options, ranks=2):
        """A layout that shards has the bits that it has unrecorded, keeps the laws, and rounds beside DDP."""
        sharded = ["--layout", sharded, *filled(options, ranks=ranks)]
        weights = self.trained(script, "sharded", *sharded, ranks=ranks)
        self.assertEqual(weights, self.trained(script, None, *sharded, ranks=ranks))
        self.trained(script, "ddp", "--layout", "ddp", *filled(options, ranks=2))
        self.assert_keeps_laws("sharded")
        weight = Trace(self.folder / "sharded").steps[1]["weight"][0]
        self.assertLess(weight["shape"][0], weight["shard"]["of"][0])
        said = lockstep("diff", self.folder / "ddp", self.folder / "sharded")
        self.assertRegex(said.stdout, r"^agree: \d{3,} records|\n  class +rounding\n", said.stdout + said.stderr)
        self.assertRegex(said.stdout, r"^agree|\n  cause +fp.reduction_order:")

    def planted(self, script, right, wrong):
        text = script.read_text()
        self.assertEqual(text.count(right), 1)
        return self.script(text.replace(right, wrong), script.name)

    @needs("lightning")
    def test_lightning_shards(self):
        self.assert_like_ddp(LIGHTNING, "fsdp")

    @needs("lightning")
    def test_lightning_splits(self):
        self.assert_like_ddp(LIGHTNING, "fsdp_tp", "--devices", "{ranks}", ranks=4)

    @needs("accelerate")
    def test_accelerate_shards(self):
        self.assert_like_ddp(ACCELERATE, "fsdp", "--max-grad-norm", "0.05")
        self.assertRegex(lockstep("check", self.folder / "sharded").stdout, r"\n  clipping +holds")

    @needs("accelerate", "transformers")
    def test_transformers_shards(self):
        self.assert_like_ddp(TRAINER, "fsdp", "--max-grad-norm", "0.2")

    @needs("accelerate", "transformers")
    def test_trainer_shards_by_accelerate(self):
        self.assert_like_ddp(TRAINER, "plugin")

    @needs("accelerate")
    def test_parameters_that_accelerate_does_not_shard_drift_apart(self):
        text = ("cpu_ram_efficient_loading=False)", "cpu_ram_efficient_loading=False, ignored_modules='head')")
        self.trained(self.planted(ACCELERATE, *text), "run")
        said = lockstep("check", self.folder / "run")
        self.assertEqual(said.returncode, 1, said.stdout + said.stderr)
        self.assertRegex(said.stdout, r"\n  ranks +broken")
        self.assertRegex(said.stdout, r"\n  at +step 0, channel gradient, tensor head.weight, rank 1")

    @needs("accelerate", "transformers")
    def test_ranks_that_draw_other_weights(self):
        mistake = "set_seed(1 + int(os.environ['RANK']))\n    model = model_of(args.layout)\n    set_seed(1)"
        script = self.planted(TRAINER, "set_seed(1)\n    model = model_of(args.layout)", mistake)
        self.trained(TRAINER, "sound", "--layout", "plugin")
        self.trained(script, "run", "--layout", "plugin")
        said = lockstep("diff", self.folder / "sound", self.folder / "run")
        self.assertRegex(said.stdout, r"\n  at +step -1, channel weight")
        self.assertRegex(said.stdout, r"\n  cause +init.weights:", said.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
