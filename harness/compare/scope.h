#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/compare/difference.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// Whether two runs have the same number of ranks and of micro-batches per update. If not, only results of the whole
/// batch can be compared.
bool same_shape(const trace::RunTrace& left, const trace::RunTrace& right);

/// Pairs of ranks to compare between two runs: rank by rank. If the world sizes differ, ranks that the smaller run
/// lacks are compared with its rank 0 (replicated channels only).
PairsOf pairs_between(const trace::RunTrace& left, const trace::RunTrace& right);

/// The part of two runs that is compared.
struct Scope {
  std::int64_t first_step = trace::kInitialStep;
  std::int64_t end_step = kNoStep;  ///< this one and later ones are left out
  bool common_steps_only = false;
  /// Records to skip; empty: none.
  std::function<bool(trace::Channel, const std::string& name, std::int64_t step)> skip;
  Watch watch = {};  ///< for pictures; empty: it compares
};

/// Compares two runs on `channels`. If their shapes differ, only shared results are compared: samples as one global
/// batch, losses after the reduction, replicated channels.
Comparison compare_runs(const trace::RunTrace& left, const trace::RunTrace& right,
                        const std::vector<trace::Channel>& channels, const Relation& relation, const Scope& scope = {});

/// Scope of the records that rank 0 of both runs holds. A resumed run, for example, lacks the losses before its first
/// step. *Lifetime*: of both runs.
Scope held_by_both(const trace::RunTrace& left, const trace::RunTrace& right);

/// The record of a run at the place of a divergence; null if the run lacks it.
const trace::Record* record_at(const trace::RunTrace& run, const Divergence& divergence);

}  // namespace lockstep::compare
