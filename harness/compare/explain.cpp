#include <bit>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <vector>

#include "harness/base/text.h"
#include "harness/compare/difference.h"
#include "harness/laws/finite.h"
#include "harness/laws/held.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;

/// A constant multiple leaves a residual of rounding only; anything else leaves far more.
constexpr double kScaledResidual = 1e-5;
constexpr double kScaledFactor = 1e-6;

std::string shape_text(const Record& record) {
  std::string text(name_of(record.dtype));
  text += "[";
  for (std::size_t i = 0; i < record.shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(record.shape[i]);
  return text + "]";
}

/// What a step computes, and what from.
struct Stage {
  Channel channel;
  const char* name;  ///< "weights"
  std::initializer_list<Channel> made_of;
  const char* result;   ///< "other weights"
  const char* look_at;  ///< what may make it other
};

constexpr Stage kStages[] = {
    {Channel::kSamples, "samples", {}, "other samples, or another order", "sampler, seed, epoch or position"},
    {Channel::kInput, "inputs", {Channel::kSamples}, "other inputs", "data or augmentation"},
    {Channel::kRng, "generators", {}, "another state of a generator", "seed, policy, or one draw more or less"},
    {Channel::kLoss, "losses", {Channel::kInput}, "another loss", "model, weights, or kernel of the forward pass"},
    {Channel::kGradientLocal, "local gradients", {Channel::kLoss}, "other local gradients", "backward pass"},
    {Channel::kGradient,
     "gradients",
     {Channel::kGradientLocal},
     "other reduced gradients",
     "reduction, its order, its scale, or what was reduced"},
    {Channel::kOptimizer,
     "optimizer states",
     {Channel::kGradient},
     "another optimizer state",
     "momentum, its restore, or a hyperparameter"},
    {Channel::kWeight,
     "weights",
     {Channel::kGradient, Channel::kOptimizer},
     "other weights",
     "learning rate, weight decay, or a write to the weights beside the update"},
    {Channel::kBuffer, "buffers", {}, "other buffers", "broadcast or restore of buffers"},
    {Channel::kEma,
     "averaged weights",
     {Channel::kWeight},
     "other averaged weights",
     "decay of the average, or an update left out"},
    {Channel::kMetric,
     "metrics",
     {Channel::kWeight, Channel::kBuffer},
     "another metric",
     "shares of the ranks, padding, or what the sum is divided by"},
    {Channel::kLedger, "ledgers", {}, "another counter, denominator or learning rate", "schedule, batch, or restore"},
    {Channel::kCollective, "collectives", {}, "other collectives", "buckets, or a branch that one rank takes"},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < std::size(kStages); ++i) {
    if (kStages[i].channel != static_cast<Channel>(i)) return false;
  }
  return std::size(kStages) == trace::kChannels.size();
}
static_assert(rows_are_in_order(), "kStages needs one row for each channel, in the order of trace::kChannels");

const Stage& stage_of(Channel channel) { return kStages[static_cast<std::size_t>(channel)]; }

/// "gradients and optimizer states".
std::string names_of(const std::vector<Channel>& channels) {
  std::vector<std::string> names;
  for (const Channel channel : channels) names.emplace_back(stage_of(channel).name);
  return join(names, " and ");
}

/// "equal gradients gave other weights", as far as what they are made of was compared.
std::string what_differs(const Stage& stage, const Seen& seen) {
  std::vector<Channel> equal, unequal;
  for (const Channel channel : stage.made_of) {
    if (seen.unequal.contains(channel)) {
      unequal.push_back(channel);
    } else if (seen.equal.contains(channel)) {
      equal.push_back(channel);
    }
  }
  const std::string result = stage.result;
  if (!unequal.empty()) return result + "; " + names_of(unequal) + " differ, too";
  if (!equal.empty()) return "equal " + names_of(equal) + " gave " + result;
  return result + (stage.made_of.size() == 0 ? "" : "; " + names_of(stage.made_of) + " were not compared");
}

/// A factor this near to W or 1/W is meant to be that.
constexpr double kNearEnough = 1e-3;

/// Digits that a ratio is shown with.
constexpr int kDigits = 9;

/// Integers of a record that a verdict lists.
constexpr std::size_t kShownIntegers = 12;

/// Significant digits of the ratio of two norms. Goldens keep norms of eight.
constexpr int kDigitsOfNorms = 7;

/// Whether a ratio would be shown as 1: it says nothing then.
bool is_one(double ratio) { return rounded(ratio, kDigits) == "1"; }

}  // namespace

std::string shown(const Record& record, bool by_sum) {
  if (record.number) {
    const bool narrow = record.dtype == trace::DType::kFloat32;
    const std::string decimal = narrow ? rounded(*record.number, 9) : to_decimal(*record.number);
    return decimal + " (float64 bits " + to_hex(std::bit_cast<std::uint64_t>(*record.number)) + ")";
  }
  if (record.shape.empty() && record.integers.size() == 1) return std::to_string(record.integers[0]);
  if (record.channel == Channel::kRng && record.integers.size() == 2)
    return "seed " + std::to_string(record.integers[0]) + ", number " + std::to_string(record.integers[1]) +
           " of a block, digest " + to_text(record.digest);
  if (!record.integers.empty()) {
    std::string text = "[";
    for (std::size_t i = 0; i < record.integers.size() && i < kShownIntegers; ++i)
      text += (i > 0 ? "," : "") + std::to_string(record.integers[i]);
    return text + (record.integers.size() > kShownIntegers ? ",…]" : "]");
  }
  if (!record.text.empty()) return record.text;
  const std::string digest = record.is_joined       ? " sum " + to_text(record.digest)
                             : by_sum && record.sum ? " sum " + to_text(*record.sum)
                                                    : " digest " + to_text(record.digest);
  std::string text = shape_text(record) + digest;
  if (record.norm) text += ", norm " + rounded(*record.norm, 7);
  return text;
}

std::optional<double> factor_between(const Record& left, const Record& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) return std::nullopt;
  if (!laws::is_finite(left) || !laws::is_finite(right)) return std::nullopt;
  if (left.number && right.number)
    return *left.number == 0 || is_one(*right.number / *left.number) ? std::nullopt
                                                                     : std::optional(*right.number / *left.number);
  const auto scale = left.sketch && right.sketch ? scale_between(*left.sketch, *right.sketch) : std::nullopt;
  const bool fits = scale && scale->residual < kScaledResidual && std::fabs(scale->factor - 1) > kScaledFactor;
  return fits ? std::optional(scale->factor) : std::nullopt;
}

std::string relation_between(const Record& left, const Record& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) return shape_text(left) + " against " + shape_text(right);
  if (left.integers.size() == right.integers.size() && left.integers.size() > 1 && left.channel != Channel::kRng) {
    for (std::size_t i = 0; i < left.integers.size(); ++i) {
      if (left.integers[i] != right.integers[i])
        return "first at position " + std::to_string(i) + ": " + std::to_string(left.integers[i]) + " against " +
               std::to_string(right.integers[i]);
    }
  }
  const bool left_is_lost = !laws::is_finite(left), right_is_lost = !laws::is_finite(right);
  if (left_is_lost && right_is_lost) return "NaN or infinity on both sides";
  if (left_is_lost || right_is_lost) return std::string("NaN or infinity on the ") + (left_is_lost ? "left" : "right");
  if (const auto factor = factor_between(left, right))
    return "right = " + rounded(*factor, left.number ? kDigits : 7) + " x left";
  const auto apart = [](double distance, double norm) {
    return "differs by about " + (norm > 0 ? rounded(distance / norm, 2) + " of its norm" : rounded(distance, 2));
  };
  if (left.number && right.number && *left.number != 0)
    return apart(std::fabs(*right.number - *left.number), std::fabs(*left.number));
  if (left.sketch && right.sketch)
    return apart(trace::estimated_norm(trace::difference(*left.sketch, *right.sketch)), left.sketch->norm);
  if (!left.norm || !right.norm || !(*left.norm > 0)) return "";
  const double ratio = *right.norm / *left.norm;
  const std::string text = rounded(ratio, kDigitsOfNorms);
  return text == "1" ? "other bits; the norms agree to " + std::to_string(kDigitsOfNorms) + " digits"
                     : "norm x " + text;
}

void explain(Divergence& divergence, const Seen& seen) {
  divergence.class_ = scenario::Class::kSemantic;
  const Stage& stage = stage_of(divergence.channel);
  if (divergence.lacks(Missing::kStep)) {
    divergence.cause = "one side has more steps than the other";
    return;
  }
  if (divergence.lacks(Missing::kRecord)) {
    divergence.cause = "one side recorded what the other did not";
    return;
  }
  const bool is_first = divergence.step == trace::kInitialStep && trace::info(divergence.channel).is_carried();
  divergence.cause = is_first ? std::string(stage.result) +
                                    " before the first update; look at seeds, or at what is loaded, and by which rank"
                              : what_differs(stage, seen) + "; look at " + stage.look_at;
  if (divergence.channel != Channel::kGradient) return;
  if (laws::parameter_of(divergence.tensor) != divergence.tensor)
    divergence.cause = seen.equal.contains(Channel::kGradient) && !seen.unequal.contains(Channel::kGradient)
                           ? "equal reduced gradients were unscaled or clipped otherwise"
                           : "other gradients after unscaling or clipping";
  if (seen.world_size < 2 || !seen.factor) return;
  const auto w = static_cast<double>(seen.world_size);
  const std::string text = std::to_string(seen.world_size);
  if (std::fabs(*seen.factor / w - 1) < kNearEnough)
    divergence.cause += "; a factor of " + text + " may be a sum where a mean was meant";
  if (std::fabs(*seen.factor * w - 1) < kNearEnough) divergence.cause += "; 1/" + text + " may be a second division";
}

}  // namespace lockstep::compare
