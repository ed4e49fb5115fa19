#include "harness/compare/repeats.h"

namespace lockstep::compare {

using trace::RunTrace;

std::optional<Divergence> part_bitwise(const RunTrace& left, const RunTrace& right, const Scope& scope) {
  return compare_runs(left, right, trace::all_channels(), bitwise, scope).first;
}

std::optional<Divergence> not_alike(const RunTrace& first, const std::vector<const RunTrace*>& others) {
  for (const RunTrace* other : others) {
    if (auto apart = part_bitwise(first, *other)) return apart;
  }
  return std::nullopt;
}

std::optional<Divergence> decided_by(const std::vector<const RunTrace*>& one_way,
                                     const std::vector<const RunTrace*>& other_way) {
  if (one_way.empty() || other_way.empty()) return std::nullopt;
  if (not_alike(*one_way[0], one_way) || not_alike(*other_way[0], other_way)) return std::nullopt;
  return part_bitwise(*one_way[0], *other_way[0]);
}

}  // namespace lockstep::compare
