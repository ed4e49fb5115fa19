#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/scenario/train_spec.h"
#include "harness/train/collective.h"

namespace lockstep::train {

/// Folder of the checkpoint saved after so many updates, among those of its run.
std::filesystem::path snapshot_folder(const std::filesystem::path& run, std::int64_t updates);

/// Makes `last_checkpoint` name this one. *Throws*: ResourceError.
void point_to_snapshot(const std::filesystem::path& run, std::int64_t updates);

/// The folder that `load` picks for a rank; empty when that rank has none.
/// *Throws*: DamagedFile when there is none to pick, or `last_checkpoint` names none.
std::filesystem::path pick_snapshot(const std::filesystem::path& run, const scenario::LoadSpec& load,
                                    std::int64_t rank);

/// The checkpoint of the rank `owner`: the others get its files and keep them in `received`. Call on every rank.
/// *Throws*: ResourceError.
std::filesystem::path shared_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      std::int64_t owner, const launch::Place& place, Collective& collective);

/// The checkpoint of the rank whose `own` one has most updates, of equals the lowest rank's: the others get its files
/// and keep them in `received`. Call on every rank; `own` is empty where there is none.
/// *Source*: pytorch/elastic, examples/imagenet/main.py, load_checkpoint: the state with the highest epoch is
/// broadcast. *Throws*: ResourceError.
std::filesystem::path newest_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      const launch::Place& place, Collective& collective);

}  // namespace lockstep::train
