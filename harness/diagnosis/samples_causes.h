#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnosis/scene.h"
#include "harness/laws/promise.h"

/// Sample ids of a run, epoch by epoch, for the diagnosis of data and of resumption.
namespace lockstep::diagnosis {

using Ids = std::vector<std::int64_t>;

/// A quotient this near to a whole number is a count.
inline constexpr double kWholeCount = 1e-3;

/// Recorded samples of all ranks in one epoch.
struct Epoch {
  std::int64_t number = 0;
  std::int64_t first_step = 0, last_step = 0;
  std::vector<Ids> ids;                          ///< by rank, in order
  std::vector<std::vector<std::int64_t>> steps;  ///< step in which each id was taken, by rank
  bool whole = false;                            ///< every step was recorded, and a later epoch too

  std::int64_t taken() const;  ///< number of samples, over all ranks
};

/// Epochs of a run, by number. The ledger tells where they begin: the passes over the loader, which count also where
/// the sampler's epoch stands still, else the epochs; else the sampler's promise. Empty if none is known, or if no ids
/// are recorded.
std::vector<Epoch> epochs_of(const trace::RunTrace& run, const scenario::Promises& promises);

/// The epoch of a step; null if there is none.
const Epoch* epoch_at(const std::vector<Epoch>& epochs, std::int64_t step);

/// Number of samples in the run's data; 0 if its header does not say.
std::int64_t samples_in_data(const trace::RunTrace& run);

/// Promise of the sampler for the run's data; nothing if unknown.
std::optional<laws::Promise> promise_for(const trace::RunTrace& run, const scenario::Promises& promises);

/// Ids by rank in one step; empty if a rank recorded none.
std::vector<Ids> ids_by_rank(const trace::RunTrace& run, std::int64_t step);

/// Ids of all ranks in one step, sorted; of ranks that compute one share together those of the first.
Ids global_batch_of(const trace::RunTrace& run, std::int64_t step);

/// Number of different ids.
std::int64_t distinct(Ids ids);

/// "3, 14, 15 and 9 more".
std::string some_ids(const Ids& ids);

}  // namespace lockstep::diagnosis
