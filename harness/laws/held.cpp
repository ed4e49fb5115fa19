#include "harness/laws/held.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::laws {

using trace::Channel;
using trace::Record;

Held::Held(const trace::RunTrace& run, std::size_t rank, std::int64_t step)
    : step_(rank < run.ranks.size() ? run.ranks[rank].find(step) : nullptr) {
  if (step_ == nullptr) return;
  for (const Record& record : step_->records)
    records_.emplace(std::pair(record.channel, std::string_view(record.name)), &record);
}

const Record* Held::find(Channel channel, std::string_view name) const {
  const auto found = records_.find({channel, name});
  return found == records_.end() ? nullptr : found->second;
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
  for (const char* done : {"unscaled ", "clipped "}) {
    if (gradient.starts_with(done)) return gradient.substr(std::string(done).size());
  }
  return gradient;
}

bool is_plain(const Record& gradient) { return parameter_of(gradient.name) == gradient.name; }

std::map<std::string, const Record*> final_gradients(const Held& held) {
  std::map<std::string, const Record*> last;
  for (const Record* record : held.all(Channel::kGradient)) last[parameter_of(record->name)] = record;
  return last;
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
