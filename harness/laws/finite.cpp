#include "harness/laws/finite.h"

#include <algorithm>
#include <cmath>

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;
using trace::Step;

/// Whether a step leaves what the next one begins with, and all of it is finite.
bool leaves_finite_state(const Step& step) {
  const auto is_state = [](const Record& record) {
    return record.channel == Channel::kWeight || record.channel == Channel::kOptimizer;
  };
  const auto is_weight = [](const Record& record) { return record.channel == Channel::kWeight; };
  return std::any_of(step.records.begin(), step.records.end(), is_weight) &&
         std::all_of(step.records.begin(), step.records.end(),
                     [&](const Record& record) { return !is_state(record) || is_finite(record); });
}

}  // namespace

bool is_finite(const Record& record) {
  // The largest element: a norm may overflow where no element does.
  const auto largest = record.max_abs ? record.max_abs : record.norm;
  return std::isfinite(largest.value_or(0)) && std::isfinite(record.number.value_or(0));
}

bool hides(const Record& record, const Step& step, const trace::Trace& rank) {
  if (is_finite(record)) return false;
  switch (record.channel) {
    case Channel::kOptimizer:
    case Channel::kWeight:
    case Channel::kEma:
    case Channel::kMetric:
      return true;
    case Channel::kLoss:
    case Channel::kGradientLocal:
    case Channel::kGradient:
      return !leaves_finite_state(step);
    case Channel::kBuffer:
      return !trace::same_bits(rank.steps.front().find(record.channel, record.name), &record);
    case Channel::kSamples:
    case Channel::kInput:
    case Channel::kRng:
    case Channel::kLedger:
    case Channel::kCollective:
      return false;
  }
  return true;
}

std::string RecordPlace::text() const {
  return "step " + std::to_string(step) + ", " + std::string(trace::name_of(channel)) + " " + tensor + ", rank " +
         std::to_string(rank);
}

}  // namespace lockstep::laws
