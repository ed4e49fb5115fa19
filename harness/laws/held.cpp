#include "harness/laws/held.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace lockstep::laws {

using trace::Channel;
using trace::Record;

namespace {

/// What was done to a gradient stands before its name.
constexpr std::array<std::string_view, 2> kDone = {"unscaled ", "clipped "};

/// What DDP handed out, where a script has changed it since.
constexpr std::string_view kReduced = "reduced ";

}  // namespace

Held::Held(const trace::RunTrace& run, std::size_t rank, std::int64_t step)
    : step_(rank < run.ranks.size() ? run.ranks[rank].find(step) : nullptr) {
  if (step_ == nullptr) return;
  slots_.resize(std::bit_ceil(2 * step_->records.size() + 1));
  for (const Record& record : step_->records) {
    const Record*& slot = slots_[slot_of(record.channel, record.name)];
    if (slot == nullptr) slot = &record;
  }
}

std::size_t Held::slot_of(Channel channel, std::string_view name) const {
  std::size_t slot = std::hash<std::string_view>()(name) + static_cast<std::size_t>(channel);
  for (;; ++slot) {
    const Record* record = slots_[slot &= slots_.size() - 1];
    if (record == nullptr || (record->channel == channel && record->name == name)) return slot;
  }
}

const Record* Held::find(Channel channel, std::string_view name) const {
  return slots_.empty() ? nullptr : slots_[slot_of(channel, name)];
}

std::vector<const Record*> Held::all(Channel channel) const {
  std::vector<const Record*> found;
  if (step_ == nullptr) return found;
  for (const Record& record : step_->records) {
    if (record.channel == channel) found.push_back(&record);
  }
  return found;
}

bool same(const Held& a, const Held& b, Channel channel) {
  const auto records = a.all(channel);
  return !records.empty() && std::all_of(records.begin(), records.end(), [&](const Record* record) {
    return trace::same_bits(record, b.find(channel, record->name));
  });
}

std::string parameter_of(const std::string& gradient) {
  for (const std::string_view done : kDone) {
    if (gradient.starts_with(done)) return gradient.substr(done.size());
  }
  return gradient;
}

bool is_own_loss(const Record& record) { return record.channel == Channel::kLoss && record.name.starts_with("local"); }

bool is_handed_out(const Record& gradient) { return gradient.name.starts_with(kReduced); }

bool is_plain(const Record& gradient) {
  return !is_handed_out(gradient) && std::none_of(kDone.begin(), kDone.end(), [&](std::string_view done) {
    return gradient.name.starts_with(done);
  });
}

std::map<std::string, const Record*> final_gradients(const Held& held) {
  std::map<std::string, const Record*> last;
  for (const Record* record : held.all(Channel::kGradient)) {
    if (!is_handed_out(*record)) last[parameter_of(record->name)] = record;
  }
  return last;
}

bool same_final_gradients(const Held& a, const Held& b) {
  const auto ours = final_gradients(a), theirs = final_gradients(b);
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && trace::same_bits(one.second, other.second);
  });
}

double total_norm(const std::map<std::string, const Record*>& gradients) {
  double squares = 0;
  for (const auto& [name, record] : gradients)
    squares += record->norm ? *record->norm * *record->norm : std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(squares);
}

trace::Sketch sum_of(const std::vector<std::pair<double, const trace::Sketch*>>& terms) {
  trace::Sketch sum;
  for (const auto& [factor, sketch] : terms) {
    if (sketch == nullptr) continue;
    for (std::size_t i = 0; i < sum.buckets.size(); ++i) sum.buckets[i] += factor * sketch->buckets[i];
  }
  sum.norm = trace::estimated_norm(sum);
  return sum;
}

double number_at(const Held& held, Channel channel, const std::string& name) {
  const Record* record = held.find(channel, name);
  return record == nullptr || !record->number ? std::numeric_limits<double>::quiet_NaN() : *record->number;
}

}  // namespace lockstep::laws
