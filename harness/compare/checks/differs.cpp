#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/compare/check.h"
#include "harness/compare/rounding.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;

/// Fills `why` of a negative control that found no difference.
CheckResult not_different(const std::string& left, const std::string& right, std::size_t compared) {
  CheckResult result{.status = CheckResult::Status::kDivergence, .compared = compared};
  result.why = "'" + left + "' and '" + right + "' are equal up to rounding, and must not be: either the change between them has no effect, or the check cannot see it";
  return result;
}

/// The first update of a parameter, by linearity of the sketch: weights after step 0 minus initial weights.
std::optional<trace::Sketch> first_update(const trace::Trace& trace, const std::string& name) {
  const trace::Step* before = trace.find(trace::kInitialStep);
  const trace::Step* after = trace.find(0);
  const Record* from = before == nullptr ? nullptr : before->find(Channel::kWeight, name);
  const Record* to = after == nullptr ? nullptr : after->find(Channel::kWeight, name);
  if (from == nullptr || to == nullptr || !from->sketch || !to->sketch) return std::nullopt;
  return trace::difference(*to->sketch, *from->sketch);
}

/// Holds the first update of every parameter against `factor` times that of the reference.
CheckResult check_factor(const trace::RunTrace& reference, const trace::RunTrace& other, double factor) {
  CheckResult result;
  const trace::Step* initial = reference.ranks[0].find(trace::kInitialStep);
  if (initial == nullptr) return {.status = CheckResult::Status::kInconclusive, .why = "the initial weights were not recorded"};
  for (const Record& weight : initial->records) {
    if (weight.channel != Channel::kWeight) continue;
    const auto left = first_update(reference.ranks[0], weight.name), right = first_update(other.ranks[0], weight.name);
    if (!left || !right) continue;
    ++result.compared;
    trace::Sketch scaled;
    for (std::size_t i = 0; i < trace::Sketch::kBuckets; ++i) scaled.buckets[i] = factor * left->buckets[i];
    const double distance = trace::estimated_norm(trace::difference(scaled, *right));
    const double bound = update_bound(reference, weight) * std::fabs(factor) + update_bound(other, weight);
    if (distance <= bound || result.divergence) continue;
    const auto scale = trace::scale_between(*left, *right);
    result.status = CheckResult::Status::kDivergence;
    result.divergence = Divergence{.step = 0, .channel = Channel::kWeight, .tensor = weight.name, .rank = 0, .left = reference.run, .right = other.run, .expected = "first update = " + to_decimal(factor) + " x that of " + reference.run, .actual = scale ? "first update = " + to_decimal(scale->factor) + " x, residual " + to_decimal(scale->residual) : "first update is zero", .class_ = "semantic", .cause = "the learning rate, or the scale of the gradient, does not follow the rule"};
  }
  if (result.compared == 0) return {.status = CheckResult::Status::kInconclusive, .why = "no first update was recorded"};
  return result;
}

}  // namespace

/// Negative control: every later variant must part from the first by more than rounding; with a factor, by exactly that
/// factor in the first update.
CheckResult check_differs(const CheckInput& input) {
  CheckResult total;
  const trace::RunTrace& reference = *input.of(input.spec.variants.front()).front();
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i) {
    const trace::RunTrace& other = *input.of(input.spec.variants[i]).front();
    const bool same_world = reference.world_size() == other.world_size();
    std::vector<Channel> channels = channels_of(input, same_world);
    if (input.spec.factor) {
      combine(total, check_factor(reference, other, *input.spec.factor));
      continue;
    }
    const Comparison comparison = compare_runs(reference, other, channels, within_rounding(reference, other));
    if (comparison.first) {
      total.compared += comparison.compared + 1;
    } else {
      combine(total, comparison.compared == 0 ? result_of(comparison) : not_different(reference.run, other.run, comparison.compared));
    }
  }
  return total;
}

}  // namespace lockstep::compare
