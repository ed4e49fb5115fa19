#include "harness/trace/trace.h"

#include <algorithm>

namespace lockstep::trace {

namespace {

std::optional<Digest> sum_held_by(const Record& record) { return record.is_joined ? record.digest : record.sum; }

}  // namespace

bool same_bits(const Record* a, const Record* b) {
  if (a == nullptr || b == nullptr || a->dtype != b->dtype || a->shape != b->shape) return false;
  if (a->is_joined != b->is_joined) return are_comparable(*a, *b) && sum_held_by(*a) == sum_held_by(*b);
  return a->digest == b->digest;
}

bool are_comparable(const Record& a, const Record& b) {
  return a.is_joined == b.is_joined || (sum_held_by(a) && sum_held_by(b));
}

bool is_note(Channel channel, std::string_view name) {
  return (channel == Channel::kLedger && name.starts_with("seen.")) ||
         (channel == Channel::kGradient && name.starts_with("reduced "));
}

const Record* Step::find(Channel channel, std::string_view name) const {
  const auto found = std::find_if(records.begin(), records.end(), [&](const Record& record) {
    return record.channel == channel && record.name == name;
  });
  return found == records.end() ? nullptr : &*found;
}

const Step* Trace::find(std::int64_t step) const {
  // Steps follow each other without gaps, as a rule.
  const std::int64_t at = steps.empty() ? -1 : step - steps.front().step;
  if (at >= 0 && at < static_cast<std::int64_t>(steps.size()) && steps[static_cast<std::size_t>(at)].step == step)
    return &steps[static_cast<std::size_t>(at)];
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.step == step; });
  return found == steps.end() ? nullptr : &*found;
}

const Record* Trace::find(std::int64_t step, Channel channel, std::string_view name) const {
  const Step* found = find(step);
  return found == nullptr ? nullptr : found->find(channel, name);
}

std::string RunTrace::torn() const {
  for (const Trace& rank : ranks) {
    if (!rank.complete) return rank.origin + ": " + rank.torn;
  }
  return "";
}

}  // namespace lockstep::trace
