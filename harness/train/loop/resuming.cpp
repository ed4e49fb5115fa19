#include "harness/train/loop/resuming.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/train/device/generator.h"
#include "harness/train/loop/snapshots.h"
#include "harness/train/loop/state_dict.h"
#include "harness/train/loop/training_parts.h"

namespace lockstep::train {
namespace {

void restore_position(const Checkpoint& checkpoint, TrainingParts& parts) {
  const LoaderPosition& saved = checkpoint.position;
  const Faults& faults = parts.rank.faults;
  const recipe::LoadEpoch epoch = parts.spec.checkpoint.load->epoch;
  Loader& loader = parts.loader;
  if (saved.ended && faults.any(&Fault::keeps_ended_iterator))
    return loader.restart(saved.epoch + 2, saved.batches + loader.batches_in(saved.position));
  if (epoch == recipe::LoadEpoch::kAgain) return loader.restart(saved.epoch, saved.batches);
  if (epoch == recipe::LoadEpoch::kNext)
    return loader.restart(saved.epoch + 1, saved.batches + loader.batches_in(saved.position));
  // Where the epoch's order was drawn from the default generator, it must be drawn again from the same state.
  const at::Tensor now = rng_state();
  if (saved.epoch_rng.defined()) set_rng(saved.epoch_rng);
  loader.restore(saved, faults.passed(&Fault::ranks_that_saved, checkpoint.world_size, parts.rank.place.world_size));
  set_rng(now);
}

}  // namespace

std::optional<Checkpoint> checkpoint_to_load(const RankContext& rank) {
  const RunSpec& run = rank.run;
  const auto& load = run.train.checkpoint.load;
  if (!load || (load->who == recipe::LoadWho::kRank0 && rank.place.rank != 0)) return std::nullopt;
  if (!run.weights_file.empty())
    return in_precision({.origin = run.weights_file, .weights = read_weights(run.weights_file, load->keys.under)},
                        precision_of(run.train));
  std::filesystem::path folder = pick_snapshot(run.checkpoint_from, *load, rank.place.rank);
  const std::filesystem::path received = rank.out / "received" / std::to_string(rank.place.rank);
  if (load->who == recipe::LoadWho::kNewest) folder = newest_snapshot(folder, received, rank.place, rank.collective);
  if (load->who == recipe::LoadWho::kRank0Sends)
    folder = shared_snapshot(folder, received, 0, rank.place, rank.collective);
  if (folder.empty()) return std::nullopt;
  const bool per_rank = load->restores("rng") || load->restores("buckets") || load->restores("buffers");
  return in_precision(load_checkpoint(folder, rank.place.rank, rank.place.world_size, per_rank),
                      precision_of(run.train));
}

void take_weights(const Checkpoint& checkpoint, const TrainingParts& parts) {
  const std::vector<NamedTensor> model = parts.weights();
  take_from(checkpoint, [&] {
    std::vector<NamedTensor> matched = match_keys(checkpoint.weights, model, parts.spec.checkpoint.load->keys);
    copy_weights(parts.rank.faults.passed(&Fault::loaded, std::move(matched)), model);
  });
}

const recipe::OptimizerChoice& saved_recipe(const Checkpoint& checkpoint, const recipe::OptimizerChoice& asked) {
  if (checkpoint.recipe.kind == asked.kind) return checkpoint.recipe;
  throw InputError({.what = "the checkpoint's state belongs to another optimizer",
                    .where = "train.checkpoint.load",
                    .expected = text_of(asked.kind),
                    .actual = text_of(checkpoint.recipe.kind),
                    .next = "leave 'optimizer' out of restore, or use the optimizer that saved"});
}

void restore_parts(const Checkpoint& checkpoint, TrainingParts& parts) {
  const recipe::LoadSpec& load = *parts.spec.checkpoint.load;
  if (load.restores("optimizer")) {
    parts.optimizer->restore(checkpoint.optimizer);
    if (!load.restores("schedule")) parts.rates.take_current(checkpoint.rates);
  }
  if (load.restores("ema") && parts.ema) parts.ema->restore(checkpoint.ema);
  if (load.restores("schedule")) {
    load.own_rates ? parts.rates.go_to(checkpoint.rates) : parts.rates.restore(checkpoint.rates);
    parts.updates = checkpoint.updates;
    parts.samples_taken = checkpoint.samples_taken;
    parts.skipped = checkpoint.skipped;
  }
  if (load.restores("sampler")) restore_position(checkpoint, parts);
  if (load.restores("schedule") && checkpoint.world_size != parts.rank.place.world_size)
    parts.samples_taken = parts.loader.samples_taken(checkpoint.position, checkpoint.world_size);
  if (load.restores("rng"))
    restore_generators(parts.rank.device, {.cpu = checkpoint.rng, .device = checkpoint.device_rng});
  parts.rank.faults.each(&Fault::restored, Restored{.updates = parts.updates, .optimizer = *parts.optimizer});
}

void follow_training(TrainingParts& parts) {
  const RankContext& rank = parts.rank;
  if (rank.run.followed.empty() || parts.updates <= rank.run.followed_after) return;
  const Checkpoint state = in_precision(load_checkpoint(snapshot_folder(rank.run.followed, parts.updates),
                                                        rank.place.rank, rank.place.world_size, /*per_rank=*/false),
                                        precision_of(parts.spec));
  take_from(state, [&] {
    copy_weights(state.weights, parts.weights());
    parts.optimizer->restore(state.optimizer);
    if (parts.ema) parts.ema->restore(state.ema);
  });
}

void save_parts(TrainingParts& parts) {
  const RankContext& rank = parts.rank;
  parts.ddp->settle_buckets();
  const Checkpoint checkpoint{.world_size = rank.place.world_size,
                              .updates = parts.updates,
                              .samples_taken = parts.samples_taken,
                              .skipped = parts.skipped,
                              .rates = parts.rates.state(),
                              .position = parts.loader.position(),
                              .buckets = parts.ddp->layout(),
                              .weights = parts.weights(parts.spec.checkpoint.prefix),
                              .recipe = parts.recipe,
                              .optimizer = rank.faults.passed(&Fault::saving, parts.optimizer->state()),
                              .ema = parts.averages(),
                              .buffers = parts.ddp->buffers(),
                              .rng = rng_state(),
                              .device_rng = generator_states(rank.device).device};
  const std::filesystem::path run = rank.out / "checkpoint", folder = snapshot_folder(run, parts.updates);
  save_checkpoint(folder, checkpoint, rank.place.rank, rank.collective);
  rank.faults.each(&Fault::saved, folder);
  if (rank.place.rank == 0) point_to_snapshot(run, parts.updates);
  rank.collective.barrier();
}

}  // namespace lockstep::train
