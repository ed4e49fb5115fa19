#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep::laws {

/// What a sampler promises for one epoch.
struct Promise {
  std::int64_t first = 0;          ///< samples below this one are never taken
  std::int64_t samples = 0;        ///< in the data set
  std::vector<std::int64_t> each;  ///< taken by each rank
  std::int64_t least = 0;          ///< times that a sample is taken
  std::int64_t most = 0;
  std::vector<std::int64_t> new_until;  ///< each rank's first place that may be padding: a sample that came before
  bool by_rank = false;                 ///< the promise is of each rank alone, not of all together
  bool reshuffles = false;              ///< another order in every epoch
  bool one_order = false;               ///< the ranks' shares are parts of one order
  std::int64_t never_again = 0;         ///< so many ids do not come in the same order twice by chance

  /// Whether every rank takes some.
  bool usable() const;
};

/// The promise of a variant's sampler over `samples` samples, at least one. Nothing for a kind that is not known here.
std::optional<Promise> promise_of(const scenario::Promises& promises, std::int64_t samples);

}  // namespace lockstep::laws
