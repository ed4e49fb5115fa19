#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// One rank of a run, as its environment manifest (the header's "environment") describes it.
struct Located {
  const trace::RunTrace* run = nullptr;
  std::size_t rank = 0;

  std::string name() const { return run->run + " rank " + std::to_string(rank); }
};

/// What two manifests say differently, as causes: builds and libraries first, then variables, processors, flags, which
/// follow from the ones before. Evidence: "threads is 1 for a/0 rank 0, 2 for a/0 rank 1".
std::vector<Suspect> suspects_between(const Located& left, const Located& right);

/// Whether two ranks have the same builds, libraries and instructions: then equal operations make equal bits.
bool same_kernels(const Located& left, const Located& right);

/// A rank whose environment is not that of the others, and one that has theirs.
struct OddRank {
  Located odd, other;

  std::vector<Suspect> suspects() const { return suspects_between(other, odd); }
};
std::optional<OddRank> rank_elsewhere(const trace::RunTrace& run);

}  // namespace lockstep::compare
