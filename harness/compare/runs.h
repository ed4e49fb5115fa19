#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/compare/difference.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// Whether two runs cut their batches alike: into as many ranks and as many micro-batches. If not, only what belongs to
/// the whole batch can be compared.
bool same_shape(const trace::RunTrace& left, const trace::RunTrace& right);

/// Ranks to compare between two runs: rank by rank; where the world sizes differ, ranks that the smaller lacks are held
/// against its rank 0 (replicated channels only).
PairsOf pairs_between(const trace::RunTrace& left, const trace::RunTrace& right);

/// The part of two runs that is compared.
struct Scope {
  std::int64_t first_step = trace::kInitialStep;
  bool common_steps_only = false;
  /// Records to leave out; empty: none.
  std::function<bool(trace::Channel, const std::string& name, std::int64_t step)> skip;
};

/// Compares two runs on `channels`; between different shapes only what is shared: samples as one global batch, losses
/// after the reduction, replicated channels.
Comparison compare_runs(const trace::RunTrace& left, const trace::RunTrace& right,
                        const std::vector<trace::Channel>& channels, const Relation& relation, const Scope& scope = {});

/// Records that rank 0 of both runs holds: what one side lacks, as a resumed run the losses before its first step, is
/// no matter of rounding. *Lifetime*: of both runs.
Scope held_by_both(const trace::RunTrace& left, const trace::RunTrace& right);

/// The record where a divergence is, in the run on its left or right side; nothing when that side lacks it.
const trace::Record* record_at(const trace::RunTrace& run, const Divergence& divergence);

}  // namespace lockstep::compare
