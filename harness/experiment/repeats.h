#pragma once

#include <optional>
#include <vector>

#include "harness/checks/check.h"
#include "harness/trace/trace.h"

/// Comparisons between several runs of one training.
namespace lockstep::experiment {

/// The first difference of two runs, in any channel; nothing if they are bitwise equal.
std::optional<compare::Divergence> part_bitwise(const trace::RunTrace& left, const trace::RunTrace& right,
                                                const compare::Scope& scope = {});

/// The first difference between `first` and one of the others; nothing if all are equal, or if there are none.
std::optional<compare::Divergence> not_alike(const trace::RunTrace& first,
                                             const std::vector<const trace::RunTrace*>& others);

/// The first difference between runs made one way and runs made the other way, if each way reproduces: then the change
/// between the two decides. Nothing if they agree, if a way has no runs, or if runs of one way differ: then chance
/// decides.
std::optional<compare::Divergence> decided_by(const std::vector<const trace::RunTrace*>& one_way,
                                              const std::vector<const trace::RunTrace*>& other_way);

}  // namespace lockstep::experiment
