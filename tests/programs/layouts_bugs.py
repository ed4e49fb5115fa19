"""Mistakes planted in layouts/train.py: how each is run, what is wrong and which cause is expected.

The patches lie in bugs/layouts. The twin is the program as it is, with the same layout, ranks and arguments. Each was
seen to change the weights or losses of its twin by more than rounding, or, of the average alone, the average.
"""

import dataclasses
import shutil
import subprocess
import sys

from programs import HERE


@dataclasses.dataclass
class Mistake:
    """A patch of layouts/train.py."""

    name: str
    layout: str
    world_size: int
    options: str
    family: str  #: prefix of the cause: "grad" of grad.not_reduced
    wrong: str
    causes: str = ""  #: causes that would be right; none: no cause in the table describes it
    #: layout and ranks of the training that saves a checkpoint, after which the mistaken one goes on from it. Both are
    #: of the same program: patched or, for the twin, as it is.
    saved_by: tuple = ()
    replicas_differ: bool = False  #: ranks that should hold the same weights hold different ones in the end

    @property
    def patch(self):
        return HERE / "bugs/layouts" / f"{self.name}.patch"

    def patched(self, folder):
        """The program with this mistake, in a new folder."""
        script = folder / self.name / "train.py"
        script.parent.mkdir(parents=True)
        shutil.copy(HERE / "layouts/train.py", script)
        subprocess.run(["patch", "--quiet", "--no-backup-if-mismatch", script, self.patch], check=True)
        return script

    def arguments(self, checkpoint=""):
        load = ["--load", str(checkpoint)] if self.saved_by else []
        return ["--layout", self.layout, *self.options.split(), *load]

    def arguments_of_saving(self, checkpoint):
        return ["--layout", self.saved_by[0], *self.options.split(), "--save", str(checkpoint)]


MISTAKES = [
    Mistake("sampler_by_global_rank", "fsdp_tp", 4, "", "data",
            "The sampler deals by global rank and world size, so TP ranks of one layer get different samples.",
            causes="data.sampler_options"),
    Mistake("data_rank_modulo", "fsdp_tp", 4, "--sequence-parallel", "data",
            "The data-parallel rank is rank % size instead of rank // TP size, so TP ranks get different samples.",
            causes="data.sampler_options"),
    Mistake("sampler_by_shard_dimension", "hsdp", 4, "", "data",
            "The sampler knows the shard dimension only, so replicas train on the same samples.",
            causes="data.not_sharded data.sampler_options"),
    Mistake("batch_over_world", "fsdp_tp", 4, "", "data",
            "The global batch is divided by the world size, not by the data-parallel size: half of it is missing.",
            causes="data.batch_semantics"),
    Mistake("divided_by_replicas_too", "hsdp", 4, "--optimizer sgd", "grad",
            "The loss is divided by the replicas, over which FSDP averages already.", causes="grad.double_average"),
    Mistake("divide_factor_left", "fsdp", 4, "--optimizer sgd", "comm",
            "The gradients' divide factor is that of two ranks, but there are four.", causes="comm.wrong_group"),
    Mistake("loss_over_tp", "fsdp_tp", 4, "--optimizer sgd --sequence-parallel", "grad",
            "The loss is averaged over the TP ranks, which compute the same loss.", causes="grad.double_average"),
    Mistake("accumulation_not_divided", "fsdp", 4, "--optimizer sgd --accumulate 2", "grad",
            "The losses of the micro-batches are summed, not averaged.", causes="grad.accum_scale"),
    Mistake("sync_left_off", "fsdp", 4, "--accumulate 2", "opt",
            "The blocks' gradient sync is switched off for a micro-batch and never on again: the blocks do not "
            "train.", causes="opt.no_effect grad.not_reduced"),
    Mistake("sync_on_first_micro_batch", "fsdp", 4, "--accumulate 2", "grad",
            "Gradients are reduced with the first micro-batch; those of the last one come into the next update.",
            causes="grad.not_reduced grad.not_zeroed"),
    Mistake("weights_left_unsharded", "fsdp", 4, "--accumulate 2", "model",
            "The blocks stay unsharded after an update's last backward, so its next forward takes their weights "
            "of before the update.",
            causes="model.stale_weights"),
    Mistake("all_reduce_left_off", "hsdp", 4, "--accumulate 2", "opt",
            "The flag of the last block's all-reduce over replicas is inverted: it is off with the last "
            "micro-batch.", causes="opt.no_effect grad.not_reduced"),
    Mistake("head_left_out", "fsdp", 4, "", "grad",
            "The head is left out of FSDP: each rank trains its own.",
            causes="grad.module_outside grad.not_reduced", replicas_differ=True),
    Mistake("replicas_not_reduced", "hsdp", 4, "", "comm",
            "FSDP gets the shard dimension only: gradients are not averaged over replicas.",
            causes="comm.wrong_group grad.not_reduced", replicas_differ=True),
    Mistake("blocks_over_shard_dimension", "hsdp", 4, "", "comm",
            "The blocks' gradients are averaged over the shard dimension only, the rest over both.",
            causes="comm.wrong_group grad.not_reduced", replicas_differ=True),
    Mistake("shards_averaged", "fsdp", 4, "", "comm",
            "Left from DDP by hand: the shards' gradients, which are of other rows, are averaged over the ranks.",
            causes="grad.shards_reduced"),
    Mistake("reduced_in_bf16", "fsdp", 4, "", "comm",
            "Gradients are reduced in bfloat16 although the policy is float32.", causes="comm.lossy"),
    Mistake("computed_in_bf16", "hsdp", 4, "--net conv", "fp",
            "The policy's dtype is bfloat16 whatever is asked for.", causes="fp.precision_mode"),
    Mistake("seed_by_rank", "fsdp", 4, "", "init",
            "The ranks draw different weights and keep a shard of each: a model that nobody drew.",
            causes="init.weights"),
    Mistake("replicated_layers_seeded_by_rank", "tp", 2, "", "init",
            "The layers that TP does not split start different on each TP rank.",
            causes="init.rank_divergent", replicas_differ=True),
    Mistake("meta_drawn_by_rank", "hsdp", 4, "--meta", "init",
            "The model is made on `meta`, and each rank draws its shards with its own seed: replicas differ.",
            causes="init.rank_divergent", replicas_differ=True),
    Mistake("meta_shards_alike", "fsdp", 4, "--meta", "init",
            "The model is made on `meta`, and each rank draws its shards with the same seed: all shards are "
            "alike.", causes="init.shards_alike init.weights"),
    Mistake("tied_weights_apart", "fsdp", 4, "--tie", "model",
            "The head is sharded on its own, which unties it from the embedding."),
    Mistake("norm_of_local_shard", "fsdp", 4, "--optimizer sgd --clip 0.3", "clip",
            "Each rank clips by the norm of its own shards.", causes="clip.norm_of_part clip.no_effect"),
    Mistake("norm_without_replicated", "tp", 2, "--optimizer sgd --clip 0.3", "clip",
            "The norm leaves out the parameters that are not sharded.", causes="clip.norm_of_part clip.no_effect"),
    Mistake("norm_over_first_dimension", "fsdp_tp", 4, "--optimizer sgd --clip 0.3 --sequence-parallel", "clip",
            "The shards' squares are summed over FSDP's ranks, not over the TP ranks.",
            causes="clip.norm_of_part clip.no_effect",
            replicas_differ=True),
    Mistake("norm_counts_replicas", "hsdp", 4, "--optimizer sgd --clip 0.3", "clip",
            "The shards' squares are summed over all ranks, so each replica counts: the norm is too large.",
            causes="clip.norm_over_ranks"),
    Mistake("partial_gradients_not_clipped", "tp", 2, "--optimizer sgd --clip 0.3 --sequence-parallel", "clip",
            "Gradients that are still partial sums are scaled in a copy: those layers are not clipped.",
            causes="clip.no_effect"),
    Mistake("norms_not_summed", "tp", 2, "--sequence-parallel", "grad",
            "The norms' weights are plain tensors under sequence parallel: nobody sums their gradients over the "
            "TP ranks.", causes="grad.not_reduced grad.param_unregistered", replicas_differ=True),
    Mistake("replicated_gradients_summed", "tp", 2, "--optimizer sgd", "grad",
            "Gradients of replicated layers, which are whole already, are summed over the TP ranks.",
            causes="grad.reduce_sum"),
    Mistake("partial_output", "tp", 2, "", "model",
            "The second layer's partial products are not summed: each TP rank goes on with its own.",
            replicas_differ=True),
    Mistake("dropout_alike", "fsdp", 4, "--dropout 0.1", "rng",
            "All ranks draw the same dropout masks for different samples.", causes="rng.dropout_clone"),
    Mistake("dropout_alike_over_tokens", "tp", 2, "--dropout 0.1 --sequence-parallel", "rng",
            "TP ranks, which hold different tokens, draw the same dropout masks.", causes="rng.dropout_clone"),
    Mistake("dropout_differs_over_tp", "tp", 2, "--dropout 0.1", "rng",
            "TP ranks, which hold the same activations, draw different dropout masks.", replicas_differ=True),
    Mistake("recomputed_with_other_masks", "fsdp", 4, "--dropout 0.1 --checkpointing", "rng",
            "The forward pass that is computed again for backward draws other dropout masks."),
    Mistake("decay_on_all", "fsdp", 4, "", "opt",
            "One flat list of parameters: norms and biases decay, too.", causes="opt.decay_scale"),
    Mistake("checkpoint_of_local_shards", "fsdp", 4, "", "ckpt",
            "The checkpoint holds local tensors under one name for all ranks: one rank's shards.",
            saved_by=("fsdp", 4),
            causes="ckpt.shards_of_one_rank"),
    Mistake("average_of_local_shards", "fsdp", 4, "--ema 0.9", "ema",
            "The average is kept as local tensors, so the checkpoint holds one rank's shards of it.",
            saved_by=("fsdp", 4)),
    Mistake("padding_saved", "fsdp", 2, "--net conv", "ckpt",
            "The weights are saved with the padding of uneven shards, and dealt out anew by what is saved.",
            causes="ckpt.other_tensor", saved_by=("fsdp", 4)),
    Mistake("strided_shards_in_rank_order", "fsdp_tp", 4, "--sequence-parallel", "ckpt",
            "The weights are put together in the order of the ranks, but FSDP shards what TP has split: rows are "
            "permuted.", causes="ckpt.other_tensor", saved_by=("fsdp_tp", 4)),
    Mistake("optimizer_under_other_name", "fsdp", 2, "", "ckpt",
            "The optimizer's state is looked for under another name, and a partial load is allowed: it starts "
            "cold.", causes="ckpt.opt_not_applied", saved_by=("fsdp", 4)),
    Mistake("schedule_not_restored", "fsdp", 2, "", "ckpt",
            "The schedule is not restored: it starts anew.", causes="ckpt.schedule_missing", saved_by=("fsdp", 4)),
    Mistake("position_by_rank", "fsdp", 2, "", "ckpt",
            "The position in the data is saved in samples of one rank, and read at another data-parallel size.",
            causes="ckpt.position_unit", saved_by=("fsdp", 4)),
]

if __name__ == "__main__":
    sys.exit("a module of tests")
