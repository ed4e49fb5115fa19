#pragma once

#include <optional>

#include "harness/compare/difference.h"
#include "harness/trace/rest.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// One rank's passes after its last update. *Lifetime*: borrows all.
struct RankAndRest {
  const trace::RunTrace& run;
  const std::optional<trace::Rest>& rest;
};

/// Compares what a rank of two runs did after the last update: how many micro-batches, which samples, their losses.
std::optional<Divergence> compare_rests(const RankAndRest& left, const RankAndRest& right, std::int64_t rank);

}  // namespace lockstep::compare
