#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Promise of a sampler for one epoch.
struct Promise {
  std::int64_t first = 0;               ///< samples below this one are never taken
  std::int64_t samples = 0;             ///< in the data set
  std::vector<std::int64_t> each;       ///< samples taken, by rank
  std::int64_t least = 0;               ///< times that a sample is taken, at least
  std::int64_t most = 0;                ///< and at most
  std::vector<std::int64_t> new_until;  ///< by rank: first position that may repeat an earlier sample (padding)
  bool by_rank = false;                 ///< `least` and `most` hold per rank, not over all ranks
  bool reshuffles = false;              ///< another order in every epoch
  bool one_order = false;               ///< all ranks take their samples from one common order
  std::int64_t never_again = 0;         ///< this many ids in the same order twice are no coincidence

  /// Whether every rank takes at least one sample.
  bool usable() const;
};

/// Whether a training resumes at the saved position in its data.
bool begins_within_an_epoch(const recipe::TrainSpec& train);

/// Samples in the data, held-out ones too, where the recipe says how many there are.
std::optional<std::int64_t> size_said(const recipe::DataChoice& data);

/// Samples in the data of a rank, as its trace says; 0: it does not.
std::int64_t samples_in(const trace::Trace& rank);

/// Samples in the data of a run: as its trace or its author says; 0: not known.
std::int64_t samples_of(const trace::RunTrace& run, const scenario::Promises& promises);

/// Promise of a variant's sampler over `samples` samples (at least 1). Nothing for an unknown kind.
std::optional<Promise> promise_of(const scenario::Promises& promises, std::int64_t samples);

}  // namespace lockstep::laws
