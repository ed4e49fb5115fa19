#include "harness/compare/ladder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "harness/base/text.h"
#include "harness/laws/held.h"

namespace lockstep::compare {
namespace {

using laws::Scales;

/// Rounding shrinks by 2^-29 in the mean. Measured over 300 batches: 2^-30.7 to 2^-29.7, outliers 2^-20; a mistake of
/// any size down to 2^-20 stays within 2^-1. Outliers of a single difference in float32 come from kinks.
constexpr double kRounding = 0x1p-18;
constexpr double kMistake = 0x1p-6;

/// No rounding shrinks by so much: ladder.h has what was measured.
constexpr double kSteep = 0x1p33;

/// How much more one step makes of what it inherits, at most, where no mistake does.
constexpr double kJump = 32;

/// What rounding has grown to where it has grown too far: in float64, and in float32.
constexpr double kGrown = 0x1p-42, kSaturated = 0x1p-6;

/// A difference that is as large as what differs: rounding amplified until no digit is left, or no rounding.
constexpr double kWhole = 0.5;

/// Rounding leaves a result of about its size. A flipped bit of an exponent makes it 2, 4, 16, ... times as large.
bool of_one_size(const trace::Record& left, const trace::Record& right) {
  const auto size = [](const trace::Record& record) {
    return std::fabs(record.number.value_or(record.norm.value_or(0)));
  };
  const double a = size(left), b = size(right);
  return std::max(a, b) < 2 * std::min(a, b);
}

/// What a step computes anew: losses and gradients.
std::vector<trace::Channel> computed_channels(const trace::RunTrace& left, const trace::RunTrace& right) {
  const bool alike = same_shape(left, right);
  return trace::channels_that([&](const trace::ChannelInfo& row) {
    return row.part == trace::Part::kComputed && (alike || row.across == trace::Across::kAllShapes);
  });
}

/// Where a record of both sides is, rank by rank.
Location place_of(const trace::Record& record, std::int64_t step, std::int64_t rank) {
  const auto which = static_cast<std::size_t>(rank);
  return {.step = step, .channel = record.channel, .tensor = record.name, .left_rank = which, .right_rank = which};
}

}  // namespace

Ladder::Says Ladder::says() const {
  if (!(in_float32 > 0) || !std::isfinite(in_float32) || !std::isfinite(in_float64)) return Says::kNothing;
  const bool shrinks = in_float64 <= kRounding * std::min(in_float32, kSaturated);
  if (shrinks && (in_float32 < kWhole || may_be_whole)) return Says::kRounding;
  return in_float64 >= kMistake * in_float32 ? Says::kMistake : Says::kNothing;
}

std::string Ladder::text() const {
  std::string text = "the difference is " + rounded(in_float32, 2) + " of the layer's scale in float32 and " +
                     rounded(in_float64, 2) + " in float64";
  if (!(in_float32 > 0) || !(in_float64 > 0)) return text;
  const double bits = std::log2(in_float64 / in_float32);
  return text + ", 2^" + rounded(std::abs(bits), 3) + " times " + (bits < 0 ? "less" : "as much");
}

PrecisionLadder::PrecisionLadder(const trace::RunTrace& left, const trace::RunTrace& right,
                                 const trace::RunTrace& left_in_float64, const trace::RunTrace& right_in_float64)
    : float32_{left, right, Scales(left), Scales(right)},
      float64_{left_in_float64, right_in_float64, Scales(left_in_float64), Scales(right_in_float64)},
      bound64_(left_in_float64, right_in_float64),
      horizon64_(bound64_.horizon()) {
  of_computed_ = rounding_of(computed_channels(left, right));
  of_states_ = rounding_of(
      trace::channels_that([](const trace::ChannelInfo& row) { return row.part == trace::Part::kUpdated; }));
}

std::optional<double> PrecisionLadder::Rung::distance(const trace::Record& a, const trace::Record& b,
                                                      std::int64_t step) const {
  if (a.channel != b.channel || a.shape != b.shape || !trace::is_floating(a.dtype)) return std::nullopt;
  double distance = 0, scale = 0;
  if (a.number && b.number) {
    distance = std::fabs(*a.number - *b.number);
    // A loss that has become small rounds as the logits do that it is the difference of.
    scale = std::max(
        {std::fabs(*a.number), std::fabs(*b.number), left_scales.largest(a, step), right_scales.largest(b, step)});
  } else if (a.sketch && b.sketch) {
    distance = laws::estimated_distance(*a.sketch, *b.sketch);
    scale = std::max(left_scales.largest(a, step), right_scales.largest(b, step));
  } else {
    return std::nullopt;
  }
  if (!std::isfinite(distance) || !std::isfinite(scale)) return std::nullopt;
  if (distance <= laws::kLeastNormal * std::sqrt(laws::count_of(a))) return 0;
  return scale > 0 ? distance / scale : distance;
}

std::optional<double> PrecisionLadder::Rung::distance(const Location& place) const {
  const trace::Record* a = record_of(left, place, place.left_rank);
  const trace::Record* b = record_of(right, place, place.right_rank);
  return a == nullptr || b == nullptr ? std::nullopt : distance(*a, *b, place.step);
}

std::optional<Ladder> PrecisionLadder::at(const Location& place) const {
  const auto in_float32 = float32_.distance(place), in_float64 = float64_.distance(place);
  if (!in_float32 || !in_float64) return std::nullopt;
  return Ladder{.in_float32 = *in_float32,
                .in_float64 = *in_float64,
                .may_be_whole = *in_float32 >= kWhole && (of_one_size_at(place) || explained_in_float64(place))};
}

bool PrecisionLadder::of_one_size_at(const Location& place) const {
  const trace::Record* left = record_of(float32_.left, place, place.left_rank);
  const trace::Record* right = record_of(float32_.right, place, place.right_rank);
  return left != nullptr && right != nullptr && of_one_size(*left, *right);
}

const trace::Record* record_of(const trace::RunTrace& run, const Location& place, std::size_t rank) {
  return run.ranks[rank < run.ranks.size() ? rank : 0].find(place.step, place.channel, place.tensor);
}

bool differ_slightly(const trace::RunTrace& left, const trace::RunTrace& right, const Location& place) {
  constexpr double kSlightly = 0x1p-14;
  const auto seen = PrecisionLadder::Rung{left, right, Scales(left), Scales(right)}.distance(place);
  return seen && *seen <= kSlightly;
}

std::int64_t first_not_finite(const trace::RunTrace& run) {
  std::int64_t first = kNoStep;
  const auto is_lost = [](const trace::Record& record) {
    return !std::isfinite(record.norm.value_or(0)) || !std::isfinite(record.number.value_or(0));
  };
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      if (step.step >= first) break;
      if (std::any_of(step.records.begin(), step.records.end(), is_lost)) first = step.step;
    }
  }
  return first;
}

std::int64_t comparable_until(const trace::RunTrace& left, const trace::RunTrace& right,
                              const trace::RunTrace& left_in_float64, const trace::RunTrace& right_in_float64) {
  const std::array low = {first_not_finite(left), first_not_finite(right)};
  const std::array high = {first_not_finite(left_in_float64), first_not_finite(right_in_float64)};
  const std::int64_t in_float32 = std::min(low[0], low[1]), in_float64 = std::min(high[0], high[1]);
  const bool one_side = low[0] != low[1] && high[0] != high[1] && (low[0] < low[1]) == (high[0] < high[1]);
  return one_side ? std::max(in_float32, in_float64) + 1 : std::min(in_float32, in_float64);
}

bool is_finite(const trace::RunTrace& run, std::int64_t until) {
  const std::int64_t first = first_not_finite(run);
  return first == kNoStep || first > until;
}

bool uses_16_bits(const trace::RunTrace& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(),
                     [](const trace::Trace& rank) { return rank.header.contains("arithmetic"); });
}

std::string PrecisionLadder::obstacle(std::int64_t until) const {
  const auto weights = [](const trace::RunTrace& run) { return laws::Held(run, 0, trace::kInitialStep); };
  if (draw_otherwise(float32_.left, float32_.right) &&
      !laws::same(weights(float64_.left), weights(float64_.right), trace::Channel::kWeight))
    return "both sides start from float32 weights that different kernels drew";
  for (const trace::RunTrace* run : {&float64_.left, &float64_.right}) {
    if (compare::uses_16_bits(*run)) return "it still computes or sends 16 bits";
    if (!is_finite(*run, until)) return "NaN or infinity hides every difference in float64 too";
  }
  return "";
}

Comparison PrecisionLadder::judge(const std::vector<trace::Channel>& channels, const Scope& scope) const {
  const Relation relation = [this](const trace::Record& a, const trace::Record& b, std::int64_t step,
                                   std::int64_t rank) -> std::optional<std::string> {
    const auto different = bitwise(a, b, step, rank);
    if (!different || laws::differ_harmlessly(a, b)) return std::nullopt;
    const auto in_float64 = trace::info(a.channel).can_round() ? float64_.distance(a, b, step) : std::nullopt;
    if (!in_float64) return different;
    const Location place = place_of(a, step, rank);
    const double in_float32 = float32_.distance(place).value_or(0);
    const double inherited = std::min(rounding_until(step), kSaturated);
    const Ladder ladder{.in_float32 = std::max({in_float32, inherited, trace::unit_roundoff(trace::DType::kFloat32)}),
                        .in_float64 = *in_float64,
                        .may_be_whole = in_float32 >= kWhole && of_one_size_at(place)};
    if (ladder.says() == Ladder::Says::kRounding || explained_in_float64(a, b, step, rank)) return std::nullopt;
    return *different + "; " + ladder.text();
  };
  return compare_runs(float64_.left, float64_.right, channels, relation, scope);
}

bool PrecisionLadder::explained_in_float64(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                           std::int64_t rank) const {
  if (horizon64_ && step >= *horizon64_) return false;
  const auto rounding = bound64_.judge(left, right, step, rank);
  return rounding && rounding->explained();
}

bool PrecisionLadder::explained_in_float64(const Location& place) const {
  const trace::Record* left = record_of(float64_.left, place, place.left_rank);
  const trace::Record* right = record_of(float64_.right, place, place.right_rank);
  return explained_in_float64(*left, *right, place.step,
                              static_cast<std::int64_t>(std::max(place.left_rank, place.right_rank)));
}

PrecisionLadder::BySteps PrecisionLadder::rounding_of(const std::vector<trace::Channel>& channels) const {
  BySteps largest;
  const Relation measure = [&](const trace::Record& a, const trace::Record&, std::int64_t step,
                               std::int64_t rank) -> std::optional<std::string> {
    const auto rungs = at(place_of(a, step, rank));
    if (!rungs || rungs->says() != Ladder::Says::kRounding) return std::nullopt;
    double& of_step = largest[step];
    of_step = std::max(of_step, rungs->in_float32);
    return std::nullopt;
  };
  compare_runs(float32_.left, float32_.right, channels, measure, held_by_both(float32_.left, float32_.right));
  double so_far = 0;
  for (auto& [step, of_step] : largest) so_far = of_step = std::max(of_step, so_far);
  return largest;
}

double PrecisionLadder::until(const BySteps& largest, std::int64_t step) {
  const auto after = largest.upper_bound(step);
  return after == largest.begin() ? 0 : std::prev(after)->second;
}

bool PrecisionLadder::lost_on_one_side(const Location& place) const {
  const auto lost = [&](const Rung& rung) {
    const trace::Record* left = record_of(rung.left, place, place.left_rank);
    const trace::Record* right = record_of(rung.right, place, place.right_rank);
    if (left == nullptr || right == nullptr || laws::is_finite(*left) == laws::is_finite(*right)) return 0;
    return laws::is_finite(*left) ? 1 : -1;
  };
  return lost(float32_) != 0 && lost(float32_) == lost(float64_);
}

std::optional<std::int64_t> PrecisionLadder::horizon() const {
  for (const auto& [step, largest] : of_computed_) {
    if (largest >= kSaturated) return step;
  }
  return std::nullopt;
}

bool PrecisionLadder::uses_16_bits() const {
  return compare::uses_16_bits(float32_.left) || compare::uses_16_bits(float32_.right);
}

Relation PrecisionLadder::shrinks() const {
  return [this, until = horizon().value_or(kNoStep)](const trace::Record& a, const trace::Record& b, std::int64_t step,
                                                     std::int64_t rank) -> std::optional<std::string> {
    const auto different = bitwise(a, b, step, rank);
    if (laws::differ_harmlessly(a, b)) return std::nullopt;
    if (!different || !trace::info(a.channel).can_round()) return different;
    const Location place = place_of(a, step, rank);
    const auto rungs = at(place);
    if (!rungs && step < until && lost_on_one_side(place)) return different;
    if (!rungs || rungs->says() != Ladder::Says::kMistake) return std::nullopt;
    if (explained_in_float64(place)) return std::nullopt;
    return *different + "; " + rungs->text();
  };
}

std::optional<Divergence> PrecisionLadder::first_mistake(const std::vector<trace::Channel>& channels,
                                                         const Scope& scope) const {
  return compare_runs(float32_.left, float32_.right, channels, shrinks(), scope).first;
}

Relation PrecisionLadder::within_rounding_of_step(bool from_one_state) const {
  std::map<std::int64_t, double> largest;
  const Relation measure = [&](const trace::Record& a, const trace::Record& b, std::int64_t step,
                               std::int64_t) -> std::optional<std::string> {
    double& at_step = largest.try_emplace(step, trace::unit_roundoff(trace::DType::kFloat64)).first->second;
    at_step = std::max(at_step, float64_.distance(a, b, step).value_or(0));
    return std::nullopt;
  };
  const std::vector<trace::Channel> computed = computed_channels(float64_.left, float64_.right);
  compare_runs(float64_.left, float64_.right, computed, measure, held_by_both(float64_.left, float64_.right));
  if (uses_16_bits()) largest.clear();  // it rounds as far
  return [this, from_one_state, computed, largest = std::move(largest)](
             const trace::Record& a, const trace::Record&, std::int64_t step,
             std::int64_t rank) -> std::optional<std::string> {
    const auto of_step = largest.find(step);
    const auto rungs = of_step == largest.end() ? std::nullopt : at(place_of(a, step, rank));
    if (!rungs) return std::nullopt;
    const bool is_computed = std::find(computed.begin(), computed.end(), a.channel) != computed.end();
    const double of_others = is_computed || !from_one_state ? of_step->second : 0;
    const double left = std::max(rungs->in_float64, of_others);  // a small divisor amplifies in both precisions
    const double inherited = from_one_state ? 0 : until(is_computed ? of_computed_ : of_states_, step - 1);
    const double explained = std::max(kSteep * left, kJump * inherited);
    if (left > kGrown || rungs->in_float32 <= explained) return std::nullopt;
    return "the difference is " + rounded(rungs->in_float32, 3) +
           " of the layer's scale in float32; judging by float64, rounding makes at most " + rounded(explained, 3);
  };
}

}  // namespace lockstep::compare
