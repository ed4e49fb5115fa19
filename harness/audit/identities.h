#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/audit/recipe.h"
#include "harness/audit/statement.h"

namespace lockstep::audit {

/// Numbers of ranks of an audit, and the batch of its identities: a multiple of all of them.
struct Range {
  std::vector<std::int64_t> ranks;  ///< ascending, without repeats
  std::int64_t base = 1;            ///< that of the recipe as it is: the baseline
  std::int64_t batch = 1;           ///< samples in one update over all ranks
  std::string instead;              ///< " (with a batch of 24: …)", where that is not the recipe's; else empty
  std::int64_t accumulation = 1;    ///< of the accumulation identity
  std::int64_t steps = 1;           ///< updates of a run of ours, no more than an epoch has where that is known
  std::int64_t samples = 0;         ///< in the data; 0: unknown
};

/// The range of a recipe. `steps`: updates of a run. `samples`: in the data; 0: unknown. *Throws*: InputError if the
/// batch is unknown.
Range range_of(const Recipe& recipe, std::vector<std::int64_t> ranks, std::int64_t steps, std::int64_t samples);

/// Does each run do what its recipe says? The ledger, the reduction and the laws, at each number of ranks.
void add_recipe_checks(Derivation& derivation, const Recipe& recipe, const Range& range);

/// The exact identities.
/// *Source*: Goyal et al. 2017 (arXiv:1706.02677), remarks 1 to 4; docs/audits.md derives each of them.
void add_identities(Derivation& derivation, const Recipe& recipe, const Range& range);

/// {batch per rank kept, global batch kept} x {rate kept, linear, square root} x {sampler, none}, against the baseline.
void add_matrix(Derivation& derivation, const Recipe& recipe, const Range& range);

}  // namespace lockstep::audit
