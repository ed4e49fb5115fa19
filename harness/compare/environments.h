#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// One rank of a run. Its environment manifest is "environment" in the header of its trace.
struct Located {
  const trace::RunTrace* run = nullptr;
  std::size_t rank = 0;

  std::string name() const { return run->run + " rank " + std::to_string(rank); }
};

/// Differences of two manifests, as causes. Builds and libraries come first; variables, processors and flags follow,
/// because the former can change the latter. Evidence: "threads is 1 for a/0 rank 0, 2 for a/0 rank 1".
std::vector<Suspect> suspects_between(const Located& left, const Located& right);

/// Whether two ranks have the same builds, libraries and instruction set. Equal operations then give equal bits.
bool same_kernels(const Located& left, const Located& right);

/// A rank whose environment differs from the others', and one of the others.
struct OddRank {
  Located odd, other;

  std::vector<Suspect> suspects() const { return suspects_between(other, odd); }
};
std::optional<OddRank> rank_elsewhere(const trace::RunTrace& run);

}  // namespace lockstep::compare
