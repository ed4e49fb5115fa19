#include "harness/compare/rounding.h"

#include <cmath>

#include "harness/compare/check.h"

namespace lockstep::compare {
namespace {

std::string place(std::int64_t step, trace::Channel channel, const std::string& tensor) {
  return "step " + std::to_string(step) + ", " + std::string(trace::name_of(channel)) + " " + tensor;
}

}  // namespace

std::vector<trace::Channel> rounding_channels(const CheckInput& input, bool same_shape) {
  std::vector<trace::Channel> channels = channels_of(input, same_shape);
  if (input.spec.channels.empty()) {
    std::erase(channels, trace::Channel::kCollective);
    std::erase(channels, trace::Channel::kRng);
    std::erase(channels, trace::Channel::kMetric);
  }
  return channels;
}

CheckResult judge_rounding(const trace::RunTrace& reference, const trace::RunTrace& other,
                           const std::vector<trace::Channel>& channels, const CheckInput& input, const Scope& scope) {
  const RoundingBound bound(reference, other);
  std::string not_finite;
  const Relation relation = [&](const trace::Record& a, const trace::Record& b, std::int64_t step, std::int64_t rank) {
    if (not_finite.empty() && a.norm && !std::isfinite(*a.norm)) not_finite = place(step, a.channel, a.name);
    return within(bound)(a, b, step, rank);
  };
  CheckResult result = result_of(compare_runs(reference, other, channels, relation, scope), input);
  const auto leave_open = [&](const std::string& why, const std::string& next) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = reference.run + " and " + other.run + ": " + why;
    result.next = next;
    if (result.divergence) result.divergence->class_ = "undecided";
    if (result.divergence) result.divergence->cause = why;
  };
  const std::string shorter = "compare fewer steps: rounding grows with every update";
  if (result.divergence) {
    const Divergence at = *result.divergence;
    if (const auto why = bound.undecided(at))
      leave_open(*why + " (" + place(at.step, at.channel, at.tensor) + ")", shorter);
  } else if (result.status == CheckResult::Status::kAgree && !not_finite.empty()) {
    leave_open("NaN or infinity on both sides hides every difference, first at " + not_finite,
               "mend the training: lower the learning rate, or look for NaN in the data");
  } else if (const auto limit = bound.horizon(); limit && result.status == CheckResult::Status::kAgree) {
    leave_open("no difference exceeds rounding, but from step " + std::to_string(*limit) +
                   " on one lost sample would not show any more",
               shorter);
  }
  return result;
}

/// Every later variant against the first: equal up to rounding.
CheckResult check_rounding(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    return judge_rounding(reference, other, rounding_channels(input, same_shape(reference, other)), input);
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::compare
