#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnosis/scene.h"
#include "harness/laws/promise.h"

/// What samples a run took, epoch by epoch: what the diagnosers of data and of resumption look at.
namespace lockstep::diagnosis {

using Ids = std::vector<std::int64_t>;

/// What the ranks of a run took in one epoch, as far as it was recorded.
struct Epoch {
  std::int64_t number = 0;
  std::int64_t first_step = 0, last_step = 0;
  std::vector<Ids> ids;                          ///< by rank, in order
  std::vector<std::vector<std::int64_t>> steps;  ///< in which each was taken
  bool whole = false;                            ///< every step of it is there, and an epoch that comes after it

  std::int64_t taken() const;  ///< by all ranks
};

/// The epochs of a run, by number, cut where its ledger says, else as the sampler promises. Empty where neither is
/// known, or no ids are recorded.
std::vector<Epoch> epochs_of(const trace::RunTrace& run, const scenario::Promises& promises);

/// The epoch that a step belongs to; null where there is none.
const Epoch* epoch_at(const std::vector<Epoch>& epochs, std::int64_t step);

/// Samples that the run's data have; 0 where its header does not say.
std::int64_t samples_in_data(const trace::RunTrace& run);

/// What the sampler promises for these data; nothing where that is not known.
std::optional<laws::Promise> promise_for(const trace::RunTrace& run, const scenario::Promises& promises);

/// Ids of each rank in one step; empty where a rank recorded none.
std::vector<Ids> ids_by_rank(const trace::RunTrace& run, std::int64_t step);

/// Those of all ranks together, sorted.
Ids global_batch_of(const trace::RunTrace& run, std::int64_t step);

/// How many values the ids have.
std::int64_t distinct(Ids ids);

/// "3, 14, 15 and 9 more".
std::string some_of(const Ids& ids);

}  // namespace lockstep::diagnosis
