#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/recipe/train_spec.h"
#include "harness/train/collective/collective.h"

namespace lockstep::train {

/// Folder of the checkpoint that a run saved after `updates` updates.
std::filesystem::path snapshot_folder(const std::filesystem::path& run, std::int64_t updates);

/// Makes `last_checkpoint` name this one. *Throws*: ResourceError.
void point_to_snapshot(const std::filesystem::path& run, std::int64_t updates);

/// Folder that `load` picks for a rank; empty if the rank has none.
/// *Throws*: DamagedFile if there is none to pick, or if `last_checkpoint` names none.
std::filesystem::path pick_snapshot(const std::filesystem::path& run, const recipe::LoadSpec& load, std::int64_t rank);

/// Shares the checkpoint of rank `owner`: the other ranks store its files in `received`. Call on every rank.
/// *Throws*: ResourceError.
std::filesystem::path shared_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      std::int64_t owner, const launch::Place& place, Collective& collective);

/// Shares the checkpoint with the most updates, of the lowest rank among equals: the other ranks store its files in
/// `received`. Call on every rank; `own` is empty if a rank has none.
/// *Source*: pytorch/elastic, examples/imagenet/main.py, load_checkpoint: the state with the highest epoch is
/// broadcast.
/// *Throws*: ResourceError.
std::filesystem::path newest_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      const launch::Place& place, Collective& collective);

}  // namespace lockstep::train
