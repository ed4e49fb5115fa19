#pragma once

#include <optional>
#include <vector>

#include "harness/checks/check.h"
#include "harness/trace/trace.h"

/// What several runs of one training say of each other.
namespace lockstep::experiment {

/// Where two runs first part, in any channel; nothing where they are bitwise equal.
std::optional<compare::Divergence> part_bitwise(const trace::RunTrace& left, const trace::RunTrace& right,
                                                const compare::Scope& scope = {});

/// Where the first of some runs parts from another that does; nothing where all are alike, or there is none.
std::optional<compare::Divergence> not_alike(const trace::RunTrace& first,
                                             const std::vector<const trace::RunTrace*>& others);

/// Where a training comes out otherwise the other way, and each time the same in either: what was changed between the
/// two decides. Nothing where it does not, where either way has no runs, or where runs of one way part: then chance
/// does.
std::optional<compare::Divergence> decided_by(const std::vector<const trace::RunTrace*>& one_way,
                                              const std::vector<const trace::RunTrace*>& other_way);

}  // namespace lockstep::experiment
