#pragma once

#include <optional>
#include <vector>

#include "harness/compare/scope.h"
#include "harness/trace/trace.h"

/// Comparisons between several runs of one training.
namespace lockstep::compare {

/// First difference of two runs in any channel; nothing if they are bitwise equal.
std::optional<Divergence> part_bitwise(const trace::RunTrace& left, const trace::RunTrace& right,
                                       const Scope& scope = {});

/// First difference between `first` and another run; nothing if all are equal or there are none.
std::optional<Divergence> not_alike(const trace::RunTrace& first, const std::vector<const trace::RunTrace*>& others);

/// First difference between runs made one way and runs made another way, if each way reproduces. The change between the
/// two ways then decides the result. Nothing if all agree, if a way has no runs, or if runs of one way differ (chance
/// decides).
std::optional<Divergence> decided_by(const std::vector<const trace::RunTrace*>& one_way,
                                     const std::vector<const trace::RunTrace*>& other_way);

}  // namespace lockstep::compare
