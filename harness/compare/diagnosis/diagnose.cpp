#include "harness/compare/diagnosis/diagnose.h"

#include <algorithm>
#include <vector>

#include "harness/compare/diagnosis/reduction.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// One side of a divergence, as far as this scenario ran it.
struct Side {
  const trace::RunTrace* run = nullptr;
  const scenario::Variant* variant = nullptr;
};

/// The run that a divergence calls "w3/0" or "w3/0 rank 1"; none of a golden or a checkpoint.
Side side_named(const CheckInput& input, const std::string& name) {
  for (const auto& [variant, runs] : input.traces) {
    for (const trace::RunTrace* run : runs) {
      if (name == run->run || name.starts_with(run->run + " ")) return {run, &input.scenario.variant(variant)};
    }
  }
  return {};
}

bool accuses(const std::vector<Suspect>& suspects, const std::string& cause) {
  return std::any_of(suspects.begin(), suspects.end(), [&](const Suspect& s) { return s.cause == cause; });
}

/// What speaks against the right side only, else what speaks against the left side only: what both have in common
/// makes no difference between them.
template <typename Suspects>
std::vector<Suspect> between(const Side& left, const Side& right, Suspects suspects_of) {
  const auto of = [&](const Side& side) { return side.run == nullptr ? std::vector<Suspect>{} : suspects_of(side); };
  const std::vector<Suspect> theirs = of(left);
  std::vector<Suspect> found;
  if (left.run == right.run) return theirs;
  const std::vector<Suspect> its = of(right);
  for (const Suspect& suspect : its) {
    if (!accuses(theirs, suspect.cause)) found.push_back(suspect);
  }
  for (const Suspect& suspect : theirs) {
    if (!accuses(its, suspect.cause)) found.push_back(suspect);
  }
  return found;
}

std::vector<Suspect> suspects_of(const Divergence& at, const Side& left, const Side& right) {
  if (at.channel == Channel::kGradient) {
    return between(left, right,
                   [&](const Side& side) { return suspects_in_reduction(*side.run, *side.variant, at.step); });
  }
  return {};
}

}  // namespace

void diagnose(const CheckInput& input, CheckResult& result) {
  if (!result.divergence) return;
  Divergence& at = *result.divergence;
  if (at.suspects.empty()) at.suspects = suspects_of(at, side_named(input, at.left), side_named(input, at.right));
  if (!at.suspects.empty()) at.class_ = name_of(find_cause(at.suspects[0].cause)->class_);
}

}  // namespace lockstep::compare
