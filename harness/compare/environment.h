#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/causes.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// What two environment manifests (the header's "environment") say differently, as causes: builds and libraries first,
/// then variables, processors, flags, which follow from the ones before. Evidence: "threads is 1 for A, 2 for B".
std::vector<Suspect> suspects_of_environments(const Json& left, const Json& right, const std::string& left_name,
                                              const std::string& right_name);

/// A rank whose environment is not that of the others, and one that has theirs.
struct OddRank {
  std::size_t odd = 0;
  std::size_t other = 0;
};
std::optional<OddRank> rank_elsewhere(const trace::RunTrace& run);

}  // namespace lockstep::compare
