#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/compare/beyond_rounding.h"
#include "harness/compare/rounding.h"
#include "harness/laws/finite.h"

namespace lockstep::checks {
namespace {

using compare::Divergence;
using compare::RoundingBound;
using trace::Channel;
using trace::Record;

/// A negative control that found no difference; of `channels` the first shows a place where there should be one.
CheckResult not_different(const trace::RunTrace& left, const trace::RunTrace& right, std::size_t compared,
                          const std::vector<Channel>& channels) {
  CheckResult result{.status = CheckResult::Status::kDivergence, .compared = compared};
  result.why = "'" + left.run + "' and '" + right.run +
               "' are equal up to rounding, but must differ: the change has no effect, or the check cannot see it";
  for (const trace::Step& step : right.ranks[0].steps) {
    for (const Record& record : step.records) {
      const bool is_shared = left.ranks[0].find(step.step, record.channel, record.name) != nullptr;
      if (step.step < 0 || record.channel != channels.at(0) || !is_shared) continue;
      result.divergence = Divergence{.step = step.step,
                                     .channel = record.channel,
                                     .tensor = record.name,
                                     .rank = 0,
                                     .left = left.run,
                                     .right = right.run,
                                     .expected = "a difference from " + left.run,
                                     .actual = compare::shown(record),
                                     .class_ = scenario::Class::kSemantic};
      return result;
    }
  }
  return result;
}

/// The first update of a parameter, by linearity of the sketch: weights after step 0 minus initial weights.
std::optional<trace::Sketch> first_update(const trace::Trace& trace, const std::string& name) {
  const Record* from = trace.find(trace::kInitialStep, Channel::kWeight, name);
  const Record* to = trace.find(0, Channel::kWeight, name);
  if (from == nullptr || to == nullptr || !from->sketch || !to->sketch) return std::nullopt;
  return trace::difference(*to->sketch, *from->sketch);
}

std::vector<const Record*> initial_weights(const trace::RunTrace& run) {
  std::vector<const Record*> weights;
  const trace::Step* initial = run.ranks[0].find(trace::kInitialStep);
  if (initial == nullptr) return weights;
  for (const Record& record : initial->records) {
    if (record.channel == Channel::kWeight) weights.push_back(&record);
  }
  return weights;
}

/// Holds the first update of one parameter against `factor` times that of the reference. An update so small that the
/// bound would hide a factor of 1, or none at all, counts for nothing.
CheckResult check_parameter(const trace::RunTrace& reference, const trace::RunTrace& other, const Record& weight,
                            double factor) {
  CheckResult result;
  const auto left = first_update(reference.ranks[0], weight.name), right = first_update(other.ranks[0], weight.name);
  const auto is_lost = [](const std::optional<trace::Sketch>& update) {
    return update && !std::isfinite(trace::estimated_norm(*update));
  };
  if (is_lost(left) && is_lost(right)) {
    hide_from(result, {.step = 0, .channel = Channel::kWeight, .tensor = weight.name},
              reference.run + " and " + other.run);
    return result;
  }
  const auto diverges = [&](std::string actual) {
    result.status = CheckResult::Status::kDivergence;
    result.divergence =
        Divergence{.step = 0,
                   .channel = Channel::kWeight,
                   .tensor = weight.name,
                   .rank = 0,
                   .left = reference.run,
                   .right = other.run,
                   .expected = "first update = " + to_decimal(factor) + " x that of " + reference.run,
                   .actual = std::move(actual),
                   .class_ = scenario::Class::kSemantic,
                   .cause = "the first updates have another ratio; look at learning rate, and scale of the gradient"};
    return result;
  };
  if (left.has_value() != right.has_value())
    return diverges(left ? "no first update was recorded" : "only this side recorded one");
  if (!left) return result;
  trace::Sketch scaled;
  for (std::size_t i = 0; i < trace::Sketch::kBuckets; ++i) scaled.buckets[i] = factor * left->buckets[i];
  const double distance = trace::estimated_norm(trace::difference(scaled, *right));
  const double bound =
      compare::update_bound(reference, weight) * std::fabs(factor) + compare::update_bound(other, weight);
  if (!std::isfinite(bound) || !(distance <= bound)) {
    const auto scale = trace::scale_between(*left, *right);
    return diverges(scale
                        ? "first update = " + to_decimal(scale->factor) + " x, residual " + to_decimal(scale->residual)
                        : "norms of the first updates: " + rounded(trace::estimated_norm(*left), 3) + " and " +
                              rounded(trace::estimated_norm(*right), 3));
  }
  const double effect = (factor == 1 ? 1 : std::fabs(factor - 1)) * trace::estimated_norm(*left);
  result.compared = effect > bound ? 1 : 0;
  return result;
}

CheckResult check_factor(const trace::RunTrace& reference, const trace::RunTrace& other, double factor) {
  CheckResult result;
  std::vector<const Record*> weights = initial_weights(reference);
  for (const Record* weight : initial_weights(other)) {
    const bool known =
        std::any_of(weights.begin(), weights.end(), [&](const Record* w) { return w->name == weight->name; });
    if (!known) weights.push_back(weight);
  }
  for (const Record* weight : weights) keep_worst(result, check_parameter(reference, other, *weight, factor));
  if (result.status == CheckResult::Status::kAgree && result.compared == 0) {
    return {.status = CheckResult::Status::kInconclusive,
            .why = weights.empty() ? "the initial weights were not recorded"
                                   : "no first update is large enough to show its factor",
            .next = "record the channel 'weight', and use a learning rate that moves the weights"};
  }
  return result;
}

/// What a training computes: a control that differs in the generators' states, in the order of its samples or in its
/// collectives only has had no effect.
std::vector<Channel> computed_channels(const CheckInput& input, const trace::RunTrace& reference,
                                       const trace::RunTrace& other) {
  std::vector<Channel> channels = channels_of(input, reference, other);
  if (!input.spec.channels.empty()) return channels;
  std::erase_if(channels, [](Channel channel) { return !trace::info(channel).can_round(); });
  return channels;
}

/// Holds two variants against each other that must not be equal.
CheckResult check_pair(const trace::RunTrace& reference, const trace::RunTrace& other, const CheckInput& input) {
  const RoundingBound bound = RoundingBound::of_finer(reference, other);
  const std::vector<Channel> channels = computed_channels(input, reference, other);
  // A run that is longer, resumes, or records more seldom does not compute anything else: what one side lacks is no
  // difference.
  const compare::Comparison comparison = compare::compare_runs(reference, other, channels, compare::within(bound),
                                                               compare::held_by_both(reference, other));
  if (comparison.compared == 0 && !comparison.first) return result_of(comparison);
  if (!comparison.first && comparison.hidden) return result_of(comparison);  // what differs may be hidden
  if (!comparison.first) return not_different(reference, other, comparison.compared, channels);
  const Record* left = compare::record_at(reference, *comparison.first);
  const Record* right = compare::record_at(other, *comparison.first);
  const auto is_lost = [](const Record* record) { return record != nullptr && !laws::is_finite(*record); };
  const bool kinks = compare::have_kinks(input.promises_of(reference), input.promises_of(other));
  auto why = bound.undecided(*comparison.first, kinks);
  if (is_lost(left) && is_lost(right)) why = "both sides hold NaN or infinity";
  if (comparison.first->lacks(compare::Missing::kRecord)) why = "one side lacks it on some ranks only";
  if (why)
    return {.status = CheckResult::Status::kInconclusive,
            .compared = comparison.compared,
            .why = reference.run + " and " + other.run + " differ first at step " +
                   std::to_string(comparison.first->step) + ", " +
                   std::string(trace::name_of(comparison.first->channel)) + " " + comparison.first->tensor +
                   ", which proves nothing: " + *why};
  return {.compared = comparison.compared + 1};
}

}  // namespace

/// Negative control: every later variant must part from the first by more than rounding; with a factor, by exactly that
/// factor in the first update.
CheckResult check_differs(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    return input.spec.factor ? check_factor(reference, other, *input.spec.factor) : check_pair(reference, other, input);
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
