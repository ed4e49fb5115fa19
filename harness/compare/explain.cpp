#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>

#include "harness/base/text.h"
#include "harness/compare/difference.h"
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

/// Which part of a step went another way when this channel is the first to differ.
struct ChannelCause {
  Channel channel;
  const char* cause;
};

constexpr ChannelCause kCauses[] = {
    {Channel::kSamples, "other samples, or another order: sampler, seed, epoch or position"},
    {Channel::kInput, "the same samples gave other tensors: data or augmentation"},
    {Channel::kRng, "a random generator is in another state: seed, policy, or one draw more or less"},
    {Channel::kLoss, "inputs that agree gave another loss: model, weights or kernel of the forward pass"},
    {Channel::kGradientLocal, "losses that agree gave other local gradients: backward pass"},
    {Channel::kGradient,
     "another reduced gradient, and nothing that was compared before it differs: reduction, its order, or its scale; "
     "between world sizes, whose ranks have no gradients in common, also what was reduced"},
    {Channel::kOptimizer,
     "gradients that agree gave another optimizer state: momentum, its restore, or a hyperparameter"},
    {Channel::kWeight,
     "gradients and optimizer state that agree gave other weights: learning rate, or weights loaded on some ranks "
     "only"},
    {Channel::kBuffer, "buffers differ: broadcast or restore of buffers"},
    {Channel::kEma, "averaged weights differ"},
    {Channel::kMetric,
     "weights that agree gave another metric: shares of the ranks, padding, or what the sum is divided by"},
    {Channel::kLedger, "a counter, a denominator or the learning rate differs"},
    {Channel::kCollective, "the ranks issued other collectives"},
};

/// A factor this near to W or 1/W is meant to be that.
constexpr double kNearEnough = 1e-3;

/// The factor that a relation names: 3 for "right = 3 x left".
std::optional<double> factor_in(const std::string& relation) {
  double factor = 0;
  if (std::sscanf(relation.c_str(), "right = %lf x left", &factor) != 1) return std::nullopt;
  return factor;
}

}  // namespace

std::string shown(const Record& record) {
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
    for (std::size_t i = 0; i < record.integers.size() && i < 12; ++i)
      text += (i > 0 ? "," : "") + std::to_string(record.integers[i]);
    return text + (record.integers.size() > 12 ? ",…]" : "]");
  }
  if (!record.text.empty()) return record.text;
  std::string text = shape_text(record) + " digest " + to_text(record.digest);
  if (record.norm) text += ", norm " + rounded(*record.norm, 7);
  return text;
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
  const auto is_lost = [](const Record& record) { return record.norm && !std::isfinite(*record.norm); };
  if (is_lost(left) && is_lost(right)) return "NaN or infinity on both sides";
  if (is_lost(left) || is_lost(right))
    return std::string("NaN or infinity on the ") + (is_lost(left) ? "left" : "right");
  if (left.number && right.number && *left.number != 0)
    return "right = " + rounded(*right.number / *left.number, 9) + " x left";
  if (left.sketch && right.sketch) {
    const auto scale = scale_between(*left.sketch, *right.sketch);
    if (scale && scale->residual < kScaledResidual && std::fabs(scale->factor - 1) > kScaledFactor)
      return "right = " + rounded(scale->factor, 7) + " x left";
    const double distance = trace::estimated_norm(trace::difference(*left.sketch, *right.sketch));
    if (left.sketch->norm > 0) return "differs by about " + rounded(distance / left.sketch->norm, 2) + " of its norm";
    return "differs by about " + rounded(distance, 2);
  }
  if (left.norm && right.norm && *left.norm > 0) return "norm x " + rounded(*right.norm / *left.norm, 9);
  return "";
}

void explain(Divergence& divergence, std::int64_t world_size) {
  divergence.class_ = "semantic";
  for (const ChannelCause& row : kCauses) {
    if (row.channel == divergence.channel) divergence.cause = row.cause;
  }
  if (divergence.channel == Channel::kGradient && laws::parameter_of(divergence.tensor) != divergence.tensor)
    divergence.cause = "equal reduced gradients were unscaled or clipped otherwise";
  if (divergence.expected == "no such step" || divergence.actual == "no such step")
    divergence.cause = "one side has more steps than the other";
  const auto factor = factor_in(divergence.relation);
  if (divergence.channel != Channel::kGradient || world_size < 2 || !factor) return;
  const auto w = static_cast<double>(world_size);
  const std::string text = std::to_string(world_size);
  if (std::fabs(*factor / w - 1) < kNearEnough)
    divergence.cause += "; a factor of " + text + " means a sum where a mean was meant";
  if (std::fabs(*factor * w - 1) < kNearEnough) divergence.cause += "; 1/" + text + " means a second division";
}

}  // namespace lockstep::compare
