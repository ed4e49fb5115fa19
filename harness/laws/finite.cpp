#include "harness/laws/finite.h"

#include <algorithm>
#include <cmath>

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;
using trace::Step;

/// Whether an element is NaN: norm and largest element are NaN then, and infinite where elements are infinite only.
bool holds_nan(const Record& record) {
  return std::isnan(record.max_abs.value_or(0)) || std::isnan(record.norm.value_or(0)) ||
         std::isnan(record.number.value_or(0));
}

/// Whether a step leaves what the next one begins with, and all of it is finite.
bool leaves_finite_state(const Step& step) {
  const auto is_state = [](const Record& record) { return trace::info(record.channel).part == trace::Part::kUpdated; };
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
  const trace::ChannelInfo& channel = trace::info(record.channel);
  switch (channel.part) {
    case trace::Part::kUpdated:
    case trace::Part::kMeasured:
      return true;
    case trace::Part::kComputed:
      return !leaves_finite_state(step);
    case trace::Part::kFollowing:  // a buffer may hold infinity from the start, as a mask does, and never NaN
      return channel.is_of_parameters() || holds_nan(record) ||
             !trace::same_bits(rank.steps.front().find(record.channel, record.name), &record);
    case trace::Part::kCounted:
      return holds_nan(record);
    case trace::Part::kTaken:
    case trace::Part::kGenerator:
    case trace::Part::kExchanged:
      return false;
  }
  return true;
}

std::string RecordPlace::text() const {
  return "step " + std::to_string(step) + ", " + std::string(trace::name_of(channel)) + " " + tensor + ", rank " +
         std::to_string(rank);
}

}  // namespace lockstep::laws
