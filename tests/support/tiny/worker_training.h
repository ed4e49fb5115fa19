#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

#include "tests/support/tiny/network.h"

namespace lockstep::test {

/// State of one rank between two updates, in float64, which holds float32 exactly.
struct RankState {
  Tensors<double> weights, optimizer, averages, means;
  std::int64_t optimizer_steps = 0;
  std::int64_t epoch = -1, position = 0;
  std::uint64_t order = 0;  ///< of which the epoch's order was drawn
  std::uint64_t seed = 0, draws = 0;
};

/// What a training saves after an update.
struct Snapshot {
  std::int64_t updates = 0, samples_taken = 0, schedule_steps = 0;
  double rate = 0;
  bool reduces_as_later = false;  ///< its buckets have been built anew
  std::vector<RankState> ranks;
};

using Snapshots = std::map<std::int64_t, Snapshot>;  ///< by number of updates

/// What surrounds a run of the fake worker.
struct Surroundings {
  std::string name;  ///< "w3/0"
  Json header;       ///< of its traces
  std::filesystem::path folder;
  std::uint64_t chance = 0;             ///< what comes out otherwise in every run
  const Snapshots* loaded = nullptr;    ///< of the variant that it loads from
  const Snapshots* followed = nullptr;  ///< of the variant that it follows
  std::int64_t followed_after = 0;
};

struct Trained {
  trace::RunTrace trace;
  Snapshots saved;
};

/// Trains a network of a few weights as lockstep-worker would train a large one: in the recipe's precision, with its
/// optimizer, checkpoints, captures and planted mistakes. Nothing is read but a file of weights, and nothing written
/// but captures.
Trained train_in_memory(const scenario::Variant& variant, const Surroundings& around);

}  // namespace lockstep::test
