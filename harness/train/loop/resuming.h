#pragma once

#include <optional>

#include "harness/train/loop/checkpoint.h"
#include "harness/train/loop/rank_context.h"

namespace lockstep::train {

struct TrainingParts;

/// Checkpoint that this rank loads: nothing when it does not take part. Call on every rank.
/// *Throws*: as `load_checkpoint` and `read_weights`.
std::optional<Checkpoint> checkpoint_to_load(const RankContext& rank);

/// Copies the weights of a checkpoint into the model. *Throws*: as `match_keys` and `copy_weights`.
void take_weights(const Checkpoint& checkpoint, const TrainingParts& parts);

/// The optimizer's hyperparameters: a restored one brings those that it was saved with.
/// *Source*: torch.optim.Optimizer.load_state_dict, PyTorch 2.11.
/// *Throws*: InputError if another optimizer saved.
const recipe::OptimizerChoice& saved_recipe(const Checkpoint& checkpoint, const recipe::OptimizerChoice& asked);

/// Restores optimizer, averages, schedule, position and generators, those that the recipe asks for.
void restore_parts(const Checkpoint& checkpoint, TrainingParts& parts);

/// Takes the state that another training had before this update, if the run follows one. Before that one's first
/// update both hold what they draw, or load.
void follow_training(TrainingParts& parts);

/// Saves a checkpoint, and points to it. Call on every rank.
void save_parts(TrainingParts& parts);

}  // namespace lockstep::train
