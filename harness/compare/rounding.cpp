#include "harness/compare/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/text.h"
#include "harness/compare/environments.h"
#include "harness/compare/scope.h"
#include "harness/laws/held.h"
#include "harness/laws/recover.h"
#include "harness/trace/entry.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::DType;
using trace::Record;
using trace::RunTrace;
using trace::Step;
using trace::Trace;

constexpr double kLambda = 8;
constexpr double kStableGrowth = 8;

/// Roundings of the size of a stored weight in one update, decay and sum, of two runs.
constexpr double kStores = 4;

/// A factor of 1 + 2^-10 on one rank of eight.
constexpr double kFactor = 0x1p-13;

/// Least scale of a layer's smaller tensors, relative to its largest.
constexpr double kOfLayer = 0x1p-6;

/// Unit roundoff of autocast or compression; 0 if neither.
double arithmetic_of(const RunTrace& run) {
  const auto dtype = trace::dtype_named(run.ranks[0].header.value("arithmetic", ""));
  return dtype ? trace::unit_roundoff(*dtype) : 0;
}

/// Unit roundoff of the weights; that of float32 if none are recorded.
double weights_roundoff(const RunTrace& run) {
  for (const Step& step : run.ranks[0].steps) {
    for (const Record& record : step.records) {
      if (record.channel == Channel::kWeight && trace::is_floating(record.dtype)) return unit_roundoff(record.dtype);
    }
  }
  return unit_roundoff(DType::kFloat32);
}

/// Factor by which the estimate of a distance may be too large.
double sketch_error(const Record& record) {
  return laws::count_of(record) <= static_cast<double>(trace::Sketch::kBuckets) ? 1 : laws::kSketchError;
}

/// Loss of two runs below the smallest normal number, over all elements.
double underflow(const Record& record) { return 2 * laws::kLeastNormal * std::sqrt(laws::count_of(record)); }

/// Least distance of two records; NaN when one of them is not finite.
double distance_between(const Record& a, const Record& b) {
  if (a.number && b.number) return std::fabs(*a.number - *b.number);
  const double norms = std::fabs(*a.norm - *b.norm);
  if (!a.sketch || !b.sketch || !a.max_abs || !b.max_abs)
    return std::isfinite(norms) ? norms : std::numeric_limits<double>::quiet_NaN();
  const double largest = std::fabs(*a.max_abs - *b.max_abs);
  const double estimate = laws::estimated_distance(*a.sketch, *b.sketch) / sketch_error(a);
  if (!std::isfinite(norms) || !std::isfinite(largest) || !std::isfinite(estimate))
    return std::numeric_limits<double>::quiet_NaN();
  return std::max({norms, largest, estimate});
}

const Step* step_before(const Trace& trace, std::int64_t step) {
  const Step* before = nullptr;
  for (const Step& candidate : trace.steps) {
    if (candidate.step < step) before = &candidate;
  }
  return before;
}

/// Relative difference that a step may have inherited.
double inherited_at(const std::map<std::int64_t, double>& inherited, std::int64_t step) {
  const auto found = inherited.find(step);
  return found == inherited.end() ? 0 : found->second;
}

std::int64_t updates_done(std::int64_t step) { return std::max<std::int64_t>(step, 0) + 1; }

}  // namespace

bool Rounding::explained() const { return std::isfinite(distance) && std::isfinite(bound) && distance <= bound; }

RoundingBound::RoundingBound(const RunTrace& left, const RunTrace& right)
    : RoundingBound(left, right, std::max(arithmetic_of(left), arithmetic_of(right))) {}

RoundingBound::RoundingBound(const RunTrace& left, const RunTrace& right, double arithmetic, bool of_one_step,
                             bool of_norms)
    : left_(left),
      right_(right),
      arithmetic_(arithmetic),
      weights_(std::max(weights_roundoff(left), weights_roundoff(right))),
      of_one_step_(of_one_step),
      of_norms_(of_norms),
      left_scales_(left),
      right_scales_(right) {
  if (!of_one_step_) inherit();
}

RoundingBound RoundingBound::of_finer(const RunTrace& left, const RunTrace& right) {
  return {left, right, std::min(arithmetic_of(left), arithmetic_of(right))};
}

RoundingBound RoundingBound::of_one_step(const RunTrace& left, const RunTrace& right) {
  return {left, right, std::max(arithmetic_of(left), arithmetic_of(right)), /*of_one_step=*/true};
}

double RoundingBound::relative(double unit_roundoff, std::int64_t step) const {
  const double updates = of_one_step_ ? 1 : static_cast<double>(updates_done(step));
  const double terms = std::max(left_scales_.terms(step), right_scales_.terms(step)) * updates;
  const double coarsest = std::max({unit_roundoff, arithmetic_, weights_});  // a metric is added up in float64
  return kLambda * coarsest * std::sqrt(terms) + inherited_at(inherited_, step);
}

/// Judges the steps in order: what one explains, the next ones inherit. A training seen to amplify faster than a stable
/// one does is believed to do so again.
void RoundingBound::inherit() {
  double largest = 0, growth = kStableGrowth;
  for (const Step& step : left_.ranks[0].steps) {
    inherited_[step.step] = growth * largest;
    const double before = largest;
    const double own = relative(weights_, step.step) - growth * largest;
    largest = std::max(largest, largest_explained(step));
    if (before > own) growth = std::max(growth, 2 * largest / before);
    inherited_[step.step + 1] = growth * largest;  // also of a step that is never taken: what the last one hides counts
  }
}

/// Largest relative difference of the step's gradients among those that the bound explains.
double RoundingBound::largest_explained(const Step& step) const {
  const Step* other = right_.ranks[0].find(step.step);
  double largest = 0;
  for (const Record& record : step.records) {
    // A resumed run's first step has no gradients: what came before shows in its weights.
    const bool resumes = other == &right_.ranks[0].steps.front() && step.step >= 0;
    if (record.channel != (resumes ? Channel::kWeight : Channel::kGradient) || other == nullptr) continue;
    const Record* found = other->find(record.channel, record.name);
    const auto rounding = found == nullptr ? std::nullopt : judge(record, *found, step.step, 0);
    const double scale =
        resumes ? std::max(left_scales_.path(record, step.step), right_scales_.path(record, step.step))
                : std::max(left_scales_.largest(record, step.step), right_scales_.largest(record, step.step));
    if (rounding && rounding->explained() && scale > 0) largest = std::max(largest, rounding->distance / scale);
  }
  return largest;
}

RoundingBound RoundingBound::of_norms(const RunTrace& left, const RunTrace& right) {
  return {left, right, std::max(arithmetic_of(left), arithmetic_of(right)), /*of_one_step=*/false, /*of_norms=*/true};
}

std::optional<Rounding> RoundingBound::judge(const Record& left, const Record& right, std::int64_t step,
                                             std::int64_t rank) const {
  const bool comparable = left.channel == right.channel && left.dtype == right.dtype && left.shape == right.shape;
  if (!comparable || !trace::is_floating(left.dtype) || !trace::info(left.channel).can_round()) return std::nullopt;
  const bool is_sketched = left.max_abs && right.max_abs && left.sketch && right.sketch;
  const bool measurable = (left.number && right.number) || (left.norm && right.norm && (of_norms_ || is_sketched));
  if (!measurable) return std::nullopt;
  if (trace::info(left.channel).is_position() && left.sketch && right.sketch) {
    if (of_one_step_) return judge_step(left, right, step);
    const Rounding position = judge_position(left, right, step);
    const auto update = judge_update(left, right, step, rank);
    return position.explained() && update ? update : position;
  }
  const double scale = std::max(left_scales_.largest(left, step), right_scales_.largest(right, step));
  const double own = left.number ? scale : std::max({*left.norm, *right.norm, kOfLayer * scale});
  return Rounding{distance_between(left, right), relative(unit_roundoff(left.dtype), step) * scale + underflow(left),
                  kFactor * own + underflow(left)};
}

Rounding RoundingBound::judge_position(const Record& left, const Record& right, std::int64_t step) const {
  const double u = unit_roundoff(left.dtype);
  const double path = std::max(left_scales_.path(left, step), right_scales_.path(right, step));
  const double stored = kLambda * u * std::sqrt(static_cast<double>(updates_done(step))) *
                        std::max(left.norm.value_or(0), right.norm.value_or(0));
  const double rest = stored + underflow(left);
  return {distance_between(left, right), relative(u, step) * path + rest, kFactor * path};
}

/// One update from a state that both sides had before it. Stored numbers differ by 1 ULP only if the numbers before
/// were on both sides of a tie: that happens to as many elements as those differ in ULPs.
Rounding RoundingBound::judge_step(const Record& left, const Record& right, std::int64_t step) const {
  const double last_place = 2 * unit_roundoff(left.dtype);
  const double length = left_scales_.update(left, step), moved = relative(unit_roundoff(left.dtype), step) * length;
  const double norm = std::max(left.norm.value_or(0), right.norm.value_or(0));
  const double largest = std::max(left.max_abs.value_or(0), right.max_abs.value_or(0));
  const double stored = std::sqrt(last_place * norm * moved) + kStores * last_place * largest;
  return {distance_between(left, right), moved + stored + underflow(left), kFactor * length};
}

/// The last change of a state: shows a fault that begins late, which the length of the whole path would hide.
std::optional<Rounding> RoundingBound::judge_update(const Record& left, const Record& right, std::int64_t step,
                                                    std::int64_t rank) const {
  const auto before = [&](const RunTrace& run) {
    return step_before(run.ranks[rank < run.world_size() ? static_cast<std::size_t>(rank) : 0], step);
  };
  const auto record_in = [](const Step* earlier, const Record& record) -> const Record* {
    const Record* from = earlier == nullptr ? nullptr : earlier->find(record.channel, record.name);
    return from != nullptr && from->sketch && from->shape == record.shape ? from : nullptr;
  };
  const Record* from_left = record_in(before(left_), left);
  const Record* from_right = record_in(before(right_), right);
  if (from_left == nullptr || from_right == nullptr) return std::nullopt;
  const trace::Sketch moved_left = trace::difference(*left.sketch, *from_left->sketch),
                      moved_right = trace::difference(*right.sketch, *from_right->sketch);
  const double u = unit_roundoff(left.dtype);
  const double interval = static_cast<double>(step - before(left_)->step);
  const double stored = kStores * u * interval * std::max(left.norm.value_or(0), right.norm.value_or(0));
  const double length = std::max(left_scales_.update(left, step), right_scales_.update(right, step));
  const double rest = stored + underflow(left);
  return Rounding{laws::estimated_distance(moved_left, moved_right) / sketch_error(left),
                  relative(u, step) * length + rest, kFactor * length};
}

std::optional<std::int64_t> RoundingBound::horizon() const {
  double samples = 0;
  for (const auto& [step, inherited] : inherited_) {
    samples = std::max({samples, left_scales_.samples(step), right_scales_.samples(step)});
    if (relative(weights_, step) * samples > 1) return step;
  }
  return std::nullopt;
}

std::optional<std::string> RoundingBound::undecided(const Divergence& divergence, bool kinks) const {
  const Record* a = left_.ranks[0].find(divergence.step, divergence.channel, divergence.tensor);
  const Record* b = right_.ranks[0].find(divergence.step, divergence.channel, divergence.tensor);
  if (a == nullptr || b == nullptr || !judge(*a, *b, divergence.step, 0)) return std::nullopt;
  const auto limit = horizon();
  if (limit && divergence.step >= *limit)
    return "by step " + std::to_string(*limit) + " rounding can move so much that one lost sample would not show";
  if (!kink_fits(divergence)) return std::nullopt;
  return kinks ? "the difference is larger than rounding alone, but a kink of a ReLU or a maximum would look the same"
               : "the difference is larger than the bound and no larger than one sample's share: the training may have "
                 "amplified rounding faster than the bound allows";
}

bool RoundingBound::equal_or_explained(const Record& left, const Record& right, std::int64_t step) const {
  if (!bitwise(left, right, step, 0)) return true;
  const auto rounding = judge(left, right, step, 0);
  return rounding && rounding->explained();
}

bool RoundingBound::states_differ_before(std::int64_t step) const {
  for (const Step& earlier : left_.ranks[0].steps) {
    const Step* other = earlier.step < step ? right_.ranks[0].find(earlier.step) : nullptr;
    if (other == nullptr) continue;
    for (const Record& record : earlier.records) {
      const bool of_update = trace::info(record.channel).part == trace::Part::kUpdated;
      if (record.channel != Channel::kGradient && !of_update) continue;
      const Record* found = other->find(record.channel, record.name);
      if (found != nullptr && bitwise(record, *found, step, 0)) return true;
    }
  }
  return false;
}

bool RoundingBound::kink_fits(const Divergence& divergence) const {
  const Channel channel = divergence.channel;
  const trace::ChannelInfo& traits = trace::info(channel);
  const bool follows_gradient = traits.is_state() && traits.is_of_parameters();
  if (channel != Channel::kGradient && !follows_gradient) return false;
  if (!states_differ_before(divergence.step)) return false;
  for (const RunTrace* run : {&left_, &right_}) {
    for (const Trace& rank : run->ranks) {
      const Record* record = rank.find(divergence.step, channel, divergence.tensor);
      const Record* of_first = run->ranks[0].find(divergence.step)->find(channel, divergence.tensor);
      if (record == nullptr || record->digest != of_first->digest || !std::isfinite(record->norm.value_or(0)))
        return false;
    }
  }
  const Step& left = *left_.ranks[0].find(divergence.step);
  const Step& right = *right_.ranks[0].find(divergence.step);
  // What clipping makes of them follows the kinks of all layers.
  const auto is_gradient = [](const Record& record) {
    return record.channel == Channel::kGradient && laws::is_plain(record);
  };
  const auto output = std::find_if(left.records.rbegin(), left.records.rend(), is_gradient);
  if (output == left.records.rend()) return false;
  bool unexplained = false;
  for (const Record& record : left.records) {
    const Record* found = right.find(record.channel, record.name);
    if (found == nullptr || equal_or_explained(record, *found, divergence.step)) continue;
    if (record.channel == Channel::kLoss && record.name == trace::entry::kReduced) return false;
    if (!is_gradient(record)) continue;
    unexplained = true;
    const bool is_of_last_layer = laws::layer_of(record.name) == laws::layer_of(output->name);
    if (is_of_last_layer || !kink_reaches(record, *found, divergence.step)) return false;
  }
  return unexplained;
}

/// A kink moves the share of one activation of one sample, whose gradient is √n times their mean where they cancel. It
/// never makes a constant multiple, a zero or a turned sign.
bool RoundingBound::kink_reaches(const Record& left, const Record& right, std::int64_t step) const {
  const auto rounding = judge(left, right, step, 0);
  const double samples = std::max(left_scales_.samples(step), right_scales_.samples(step));
  const double scale = std::max(left_scales_.largest(left, step), right_scales_.largest(right, step));
  if (!rounding || !(samples > 0) || !(rounding->distance * std::sqrt(samples) <= scale)) return false;
  const auto multiple = scale_between(*left.sketch, *right.sketch);
  return multiple && multiple->residual > laws::kMultipleRest * std::fabs(multiple->factor - 1);
}

Relation within(const RoundingBound& bound) {
  return [&bound](const Record& a, const Record& b, std::int64_t step,
                  std::int64_t rank) -> std::optional<std::string> {
    const auto different = bitwise(a, b, step, rank);
    if (!different || laws::differ_harmlessly(a, b)) return std::nullopt;
    const auto rounding = bound.judge(a, b, step, rank);
    if (!rounding)
      return *different + (trace::is_floating(a.dtype) && trace::info(a.channel).can_round() && !(a.sketch && b.sketch)
                               ? "; without sketches it may be rounding"
                               : "");
    if (rounding->explained()) return std::nullopt;
    return *different + "; rounding explains at most " + rounded(rounding->bound, 4) + ", the distance is at least " +
           rounded(rounding->distance, 4);
  };
}

Relation within_rounding(const RunTrace& left, const RunTrace& right) {
  const RoundingBound bound(left, right);
  return [bound](const Record& a, const Record& b, std::int64_t step, std::int64_t rank) {
    return within(bound)(a, b, step, rank);
  };
}

void name_rounding(Divergence& divergence, const RunTrace& left, const RunTrace& right) {
  const Record* a = record_at(left, divergence);
  const Record* b = record_at(right, divergence);
  if (a == nullptr || b == nullptr) return;
  const auto rounding = RoundingBound(left, right).judge(*a, *b, divergence.step, divergence.rank);
  if (!laws::differ_in_last_places(*a, *b) && (!rounding || !rounding->explained())) return;
  divergence.call_rounding(scenario::Class::kRounding, "rounding only: another order of additions, or another kernel");
}

bool draw_otherwise(const RunTrace& left, const RunTrace& right) {
  if (same_kernels({&left, 0}, {&right, 0})) return false;
  const laws::Held begin(left, 0, trace::kInitialStep), other(right, 0, trace::kInitialStep);
  if (begin.all(Channel::kWeight).empty() || laws::same(begin, other, Channel::kWeight)) return false;
  const RoundingBound bound(left, right);
  const auto weights = begin.all(Channel::kWeight);
  return std::all_of(weights.begin(), weights.end(), [&](const Record* weight) {
    const Record* its = other.find(Channel::kWeight, weight->name);
    if (its == nullptr || trace::same_bits(weight, its)) return its != nullptr;
    const auto rounding = bound.judge(*weight, *its, trace::kInitialStep, 0);
    return rounding && rounding->explained();
  });
}

double update_bound(const RunTrace& run, const Record& weight) {
  const Record* record = run.ranks[0].find(0, Channel::kWeight, weight.name);
  if (record == nullptr) return 0;
  const auto rounding = RoundingBound(run, run).judge(*record, *record, 0, 0);
  return rounding ? laws::kSketchError * rounding->bound : 0;
}

}  // namespace lockstep::compare
