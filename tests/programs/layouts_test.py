"""One training in any layout: DDP, FSDP2, HSDP, tensor parallelism, and FSDP2 with it."""

import re
import sys
import unittest

import torch  # noqa: F401  (once: the ranks run in forks of this process)
import torch.distributed  # noqa: F401
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.tensor.parallel  # noqa: F401

from layouts_bugs import MISTAKES
from programs import HERE, ProgramTest, Trace, launch, lockstep, recording, torch_is_before

SCRIPT = HERE / "layouts/train.py"


@unittest.skipIf(torch_is_before(11), "the program is of torch 2.11")
class LayoutsTest(ProgramTest):
    PARTS = 3

    def trained(self, name, layout, world_size, *options):
        words = ["--layout", layout, "--steps", 4, *options]
        run = self.ranks(SCRIPT, name, list(map(str, words)), world_size)
        said = lockstep("check", run)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        for law in ("usage", "state", "update", "shares", "finite", *["ranks"][: world_size - 1]):
            self.assertRegex(said.stdout, rf"\n  {law} +holds")
        return run

    def assert_rounding(self, left, right, causes="fp.reduction_order|fp.batch_variance"):
        said = lockstep("diff", left, right)
        self.assertRegex(said.stdout, r"\n  class +rounding\n", said.stdout + said.stderr)
        self.assertRegex(said.stdout, rf"\n  cause +({causes}):")

    def test_fsdp_has_the_bits_of_ddp(self):
        for net in ("transformer", "conv"):
            options = ["--net", net, "--accumulate", 2, "--ema", 0.9]
            ddp = self.trained(f"ddp-{net}", "ddp", 2, *options)
            fsdp = self.trained(f"fsdp-{net}", "fsdp", 2, *options)
            self.assertRegex(self.assert_agree(ddp, fsdp), r"agree: \d{3,} records")
            weight = Trace(fsdp).steps[3]["weight"][0]
            self.assertEqual(weight["shard"]["mesh"], "dp_shard=2")
            self.assertLess(weight["shape"][0], weight["shard"]["of"][0])

    def test_layouts_differ_by_rounding(self):
        alone = self.trained("single", "single", 1)
        for layout, world_size in (("hsdp", 4), ("tp", 2), ("fsdp_tp", 4)):
            self.assert_rounding(alone, self.trained(layout, layout, world_size))

    def test_sgd_over_four_ranks(self):
        options = ["--optimizer", "sgd", "--net", "conv"]
        fsdp = self.trained("fsdp", "fsdp", 4, *options, "--checkpointing")  # which wraps blocks, and renames nothing
        self.assert_rounding(self.trained("ddp", "ddp", 4, *options), fsdp)

    def test_sound_forms_of_fsdp_break_no_law(self):
        sync, mesh, step = ("self.model.set_requires_gradient_sync(last)", "mp_policy=policy)",
                            "        norm = clip_grad_norm_")
        by_hand = "        for p in self.model.parameters():\n            p.grad.div_(2)\n"
        for name, old, new, options, world_size, reduction in (
                ("each-pass", sync, "pass", ["fsdp", "--accumulate", "3", "--optimizer", "sgd"], 2, "holds"),
                ("replicas-last", sync, "self.model.set_requires_all_reduce(last)", ["hsdp", "--accumulate", "2"], 4,
                 "holds"),
                ("columns", mesh, "mp_policy=policy, shard_placement_fn=lambda p: Shard(p.dim() - 1))",
                 ["fsdp", "--policy", "bf16", "--clip", "0.3"], 4, "holds"),
                ("by-hand", step, by_hand + step, ["fsdp_tp", "--clip", "0.3"], 4, "cannot tell, because the program")):
            text = SCRIPT.read_text()
            self.assertEqual(text.count(old), 1, name)
            script = self.script(text.replace(old, new))
            run = self.ranks(script, name, ["--layout", *options, "--steps", "3"], world_size)
            said = lockstep("check", run)
            self.assertEqual(said.returncode, 0, name + said.stdout + said.stderr)
            self.assertRegex(said.stdout, rf"\n  reduction +{reduction}", name)

    def formed(self, form, layout, world_size, code=0):
        run = self.ranks(HERE / "layouts/forms.py", f"{form}-{layout}-{world_size}", [form, layout], world_size)
        said = lockstep("check", run)
        self.assertEqual(said.returncode, code, f"{run}: {said.stdout}{said.stderr}")
        return run

    def test_unusual_forms_are_no_difference(self):
        self.assert_rounding(self.formed("scaled", "ddp", 4), self.formed("scaled", "fsdp", 4))
        for form, verdict in (("two", "agree: .*own gradients of later reductions"),
                              ("ignored", "agree: .*parameters outside of FSDP2"), ("complex", "agree: ")):
            said = lockstep("diff", self.formed(form, "ddp", 2), self.formed(form, "fsdp", 2))
            self.assertRegex(said.stdout, verdict, form)
        self.assert_rounding(self.formed("bf16", "fsdp", 2), self.formed("bf16", "hsdp", 4))
        self.formed("hook", "fsdp", 2)
        said = lockstep("diff", self.formed("stages", "own", 2), self.formed("stages", "own", 4))
        self.assertRegex(said.stdout, "^inconclusive: .*hold other parameters, as the stages of a pipeline do")
        said = lockstep("diff", self.formed("over_tp", "hand", 4), self.formed("over_tp", "ddp", 4))
        self.assertRegex(said.stdout, "^inconclusive: .*recorded no weight")

    def test_unusual_mistakes_have_no_wrong_name(self):
        for sound, mistaken, code, cause in (("plain", "sync_off", 1, "cause +grad.not_reduced"),
                                             ("clipped", "norm_of_part", 0, "cause +unknown")):
            said = lockstep("diff", self.formed(sound, "fsdp", 2), self.formed(mistaken, "fsdp", 2, code))
            self.assertRegex(said.stdout, cause)
        said = lockstep("check", self.formed("flipped", "hsdp", 4, 1))
        self.assertRegex(said.stdout, r"in \[6:12, 0:12\] of \[12, 12\] on rank 1 and rank 3 only")
        self.assertRegex(said.stdout, "cause +model.written_on_rank")

    def test_mistakes_are_named_in_one_run(self):
        for name, laws in (("sync_left_off", "usage"), ("weights_left_unsharded", "usage"),
                           ("norm_without_replicated", "clipping"), ("replicas_not_reduced", "reduction|ranks"),
                           ("shards_averaged", "reduction"), ("checkpoint_of_local_shards", "usage")):
            mistake = next(each for each in MISTAKES if each.name == name)
            script = mistake.patched(self.folder)
            words = [*mistake.arguments(), "--steps", "3"]
            if mistake.saved_by:
                saved = str(self.folder / "checkpoint")
                saving = [*mistake.arguments_of_saving(saved), "--save-at", "2", "--steps", "3"]
                self.ranks(script, f"{name}-saving", saving, mistake.saved_by[1])
                words = [*mistake.arguments(saved), "--steps", "4"]
            said = lockstep("check", self.ranks(script, f"{name}-run", words, mistake.world_size))
            self.assertRegex(said.stdout, rf"\n  ({laws}) +broken", name + said.stdout + said.stderr)
            self.assertRegex(said.stdout, "|".join(map(re.escape, mistake.causes.split())), name)

    def test_a_checkpoint_goes_on_in_another_layout(self):
        checkpoint = str(self.folder / "saved")
        saving = self.trained("saving", "fsdp", 4, "--save", checkpoint, "--save-at", 2)
        for layout, world_size in (("fsdp", 2), ("tp", 2), ("single", 1)):
            resumed = self.trained(f"{layout}-{world_size}", layout, world_size, "--load", checkpoint)
            said = self.assert_agree(saving, resumed)
            self.assertIn("begins with the weights that", said)
            self.assertIn("equal up to rounding, which is seen first at step", said)

    def test_recording_adds_no_collective(self):
        counts = {}
        for name, variables in (("plain", {}), ("recorded", recording(self.folder / "run"))):
            words = [HERE / "layouts/counted.py", "--layout", "hsdp_tp", "--steps", "2", "--clip", "0.3"]
            ended = launch(words, 8, self.folder, timeout=120, **variables)
            counts[name] = sorted(re.findall(r"^collectives (\[.*\])$", ended.err, re.M))
            self.assertEqual(len(counts[name]), 8, ended)
        self.assertEqual(counts["plain"], counts["recorded"])
        self.assertRegex(counts["plain"][0], r"[1-9]\d")

    def test_replicas_of_a_program_s_own_share_no_batch(self):
        text = SCRIPT.read_text()
        mesh, step = "fully_shard(module, mesh=self.mesh[self.dp_names]", "        self.optimizer.step()\n"
        self.assertEqual((text.count(mesh), text.count(step)), (1, 1))
        by_hand = """        for p in self.model.parameters():
            dist.all_reduce(p.grad._local_tensor, group=self.mesh["dp_replicate"].get_group())
            p.grad._local_tensor /= self.mesh["dp_replicate"].size()
"""
        text = text.replace(mesh, 'fully_shard(module, mesh=self.mesh["dp_shard"]').replace(step, by_hand + step)
        own = self.ranks(self.script(text), "own", ["--layout", "hsdp", "--steps", "4"], 4)
        self.assertRegex(lockstep("check", own).stdout, r"\n  shares +holds")
        self.assert_agree(self.trained("hsdp", "hsdp", 4), own)

    def test_a_rank_of_which_the_file_is_lost_proves_nothing(self):
        run = self.trained("fsdp", "fsdp", 2, "--clip", 0.3)
        self.assertRegex(lockstep("check", run).stdout, r"\n  clipping +holds")
        (run / "rank1.jsonl").unlink()
        said = lockstep("check", run)
        self.assertEqual(said.returncode, 4, said.stdout)
        self.assertIn("the trace of rank 1 is missing", said.stdout + said.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
