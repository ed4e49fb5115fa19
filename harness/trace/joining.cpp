#include "harness/trace/joining.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/trace/additive_digest.h"
#include "harness/trace/batch_share.h"

namespace lockstep::trace {
namespace {

/// A norm this near to that of one number in all places is its norm.
constexpr double kNormOfOne = 1e-6;

/// A rank's record of a part.
struct Part {
  std::size_t rank = 0;
  Record* record = nullptr;
};

/// Offset and extents of a box in its tensor.
using Box = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

/// The parts of one tensor after one step, by their boxes; replicas by rank.
using Parts = std::map<Box, std::vector<Part>>;

bool has_elements(const Box& box) { return count_of(box.second) > 0; }

bool overlap(const Box& a, const Box& b) {
  for (std::size_t i = 0; i < a.first.size(); ++i) {
    if (a.first[i] >= b.first[i] + b.second[i] || b.first[i] >= a.first[i] + a.second[i]) return false;
  }
  return true;
}

/// Joins the shards of one tensor after one step.
class Joining {
 public:
  Joining(const RunTrace& run, std::int64_t step, const std::vector<Part>& parts) : run_(run), step_(step) {
    for (const Part& part : parts) boxes_[{part.record->shard->offset, part.record->shape}].push_back(part);
    first_ = &parts.front();
  }

  /// One record for each rank that holds a part, in the order of the parts.
  std::vector<std::pair<Part, Record>> joined() const {
    require_one_tensor();
    std::size_t replicas = 1;
    for (const auto& [box, holders] : boxes_) replicas = std::max(replicas, has_elements(box) ? holders.size() : 1);
    std::vector<Record> whole;
    for (std::size_t replica = 0; replica < replicas; ++replica) whole.push_back(whole_of(replica));
    std::vector<std::pair<Part, Record>> records;
    for (const auto& [box, holders] : boxes_) {
      for (std::size_t replica = 0; replica < holders.size(); ++replica)
        records.emplace_back(holders[replica], whole[std::min(replica, whole.size() - 1)]);
    }
    return records;
  }

 private:
  void require_one_tensor() const {
    const Record& expected = *first_->record;
    std::size_t held = 0;
    std::vector<const Box*> seen;
    for (const auto& [box, holders] : boxes_) {
      for (const Part& part : holders) {
        if (part.record->dtype == expected.dtype && part.record->shard->whole == expected.shard->whole) continue;
        fail(part, "they are parts of different tensors", text_of(expected), text_of(*part.record));
      }
      if (!has_elements(box)) continue;
      for (const Box* other : seen) {
        if (overlap(*other, box))
          fail(holders[0], "two of them overlap", "parts without a common element",
               text_of(*boxes_.at(*other)[0].record) + " and " + text_of(*holders[0].record));
      }
      seen.push_back(&box);
      held += count_of(box.second);
    }
    const std::size_t count = count_of(expected.shard->whole);
    if (held != count)
      fail(*first_, "elements are on no rank", std::to_string(count) + " elements",
           std::to_string(held) + ", in " + list_of_parts(), next_for_lost_elements());
  }

  /// Ranks that do not make the same updates hold the parts of one tensor in different steps.
  std::string next_for_lost_elements() const {
    std::vector<std::string> updates;
    bool differ = false;
    for (const Trace& rank : run_.ranks) {
      differ = differ || rank.steps.size() != run_.ranks[0].steps.size();
      updates.push_back("rank " + std::to_string(rank.rank) + " " + std::to_string(rank.steps.size()));
    }
    return differ ? "look why the ranks do not make the same updates (steps recorded: " + join(updates, ", ") + ")"
                  : kRunAgain;
  }

  static constexpr const char* kRunAgain = "run it again; shards that do not fit prove nothing";

  [[noreturn]] void fail(const Part& part, const std::string& what, std::string expected, std::string actual,
                         std::string next = kRunAgain) const {
    throw DamagedFile({.what = "the shards of a tensor do not make one: " + what,
                       .where = run_.ranks[part.rank].origin + ", step " + std::to_string(step_) + ", " +
                                std::string(name_of(part.record->channel)) + " " + part.record->name,
                       .expected = std::move(expected),
                       .actual = std::move(actual),
                       .next = std::move(next)});
  }

  static std::string text_of(const Record& record) {
    return std::string(name_of(record.dtype)) + " " + text_of_box(*record.shard, record.shape);
  }

  std::string list_of_parts() const {
    std::vector<std::string> parts;
    for (const auto& [box, holders] : boxes_)
      parts.push_back("rank " + std::to_string(holders[0].rank) + ": " + text_of(*holders[0].record));
    return join(parts, "; ");
  }

  /// Whether all parts have the same elements, and not one number everywhere.
  bool has_alike_parts(std::size_t replica) const {
    const Record* first = nullptr;
    for (const auto& [box, holders] : boxes_) {
      if (!has_elements(box)) continue;
      const Record& part = *holders[std::min(replica, holders.size() - 1)].record;
      if (first == nullptr) first = &part;
      if (part.shape != first->shape || part.digest != first->digest) return false;
    }
    return first != nullptr && first->norm && !is_of_one_magnitude(*first);
  }

  Record whole_of(std::size_t replica) const {
    const Shard& any = *first_->record->shard;
    Record whole{.channel = first_->record->channel, .name = first_->record->name, .dtype = first_->record->dtype};
    whole.shape = any.whole;
    whole.layout = any.mesh + ": " + any.placements;
    whole.sum = Digest{};
    whole.elements.resize(first_->record->sketch ? sampled_places(count_of(any.whole)).size() : 0, std::nan(""));
    std::size_t boxes = 0, sampled = 0;
    for (const auto& [box, holders] : boxes_) {
      if (!has_elements(box)) continue;
      const Part& holder = holders[std::min(replica, holders.size() - 1)];
      const Record& part = *holder.record;
      ++boxes;
      whole.digest = part.digest;
      whole.parts.push_back(
          {.rank = run_.ranks[holder.rank].rank, .box = text_of_box(*part.shard, part.shape), .digest = part.digest});
      whole.sum = sum_of(*whole.sum, *part.sum);
      if (part.sketch) whole.sketch = whole.sketch ? sum_of(*whole.sketch, *part.sketch) : *part.sketch;
      const std::vector<Sampled> places = sampled_in(*part.shard, part.shape);
      for (std::size_t i = 0; i < std::min(places.size(), part.elements.size()); ++i, ++sampled)
        whole.elements[places[i].number] = part.elements[i];
    }
    if (sampled != whole.elements.size()) whole.elements.clear();  // the channel samples none
    if (whole.sketch) whole.norm = whole.sketch->norm;
    if (whole.sketch) whole.max_abs = whole.sketch->max_abs;
    whole.is_repeated = boxes > 1 && has_alike_parts(replica);
    if (boxes == 1) whole.parts.clear();
    if (boxes == 1) return whole;  // one rank holds all of it: its digest is that of the tensor
    whole.is_joined = true;
    whole.digest = *whole.sum;
    return whole;
  }

  const RunTrace& run_;
  std::int64_t step_;
  Parts boxes_;
  const Part* first_;
};

/// Channel, name, place among records of the name, and the share of the batch that a gradient comes from before the
/// reduction: each share has a tensor of its own.
using Key = std::tuple<Channel, std::string, std::size_t, std::int64_t>;

/// Shards of one step.
std::map<Key, std::vector<Part>> shards_of(const RunTrace& run, std::vector<std::pair<std::size_t, Step*>>& held) {
  std::map<Key, std::vector<Part>> shards;
  for (auto& [rank, step] : held) {
    std::map<std::pair<Channel, std::string_view>, std::size_t> seen;
    for (Record& record : step->records) {
      if (!record.shard) continue;
      const std::size_t number = seen[{record.channel, record.name}]++;
      const bool has_own = record.channel == Channel::kGradientLocal;
      const std::int64_t share = has_own ? batch_share_of(run.ranks[rank]).number : 0;
      shards[{record.channel, record.name, number, share}].push_back({rank, &record});
    }
  }
  return shards;
}

}  // namespace

bool is_of_one_magnitude(const Record& record) {
  if (!record.norm || !record.max_abs) return false;
  const double expected = *record.max_abs * std::sqrt(static_cast<double>(count_of(record.shape)));
  return std::fabs(*record.norm - expected) <= kNormOfOne * expected;
}

void join_shards(RunTrace& run) {
  std::map<std::int64_t, std::vector<std::pair<std::size_t, Step*>>> steps;  // those that hold a shard
  std::map<std::int64_t, std::size_t> ranks_with;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    for (Step& step : run.ranks[rank].steps) {
      ++ranks_with[step.step];
      const bool has_shards = std::any_of(step.records.begin(), step.records.end(),
                                          [](const Record& record) { return record.shard.has_value(); });
      if (has_shards) steps[step.step].emplace_back(rank, &step);
    }
  }
  const bool is_torn = !run.torn().empty();
  for (auto& [number, held] : steps) {
    if (is_torn && ranks_with[number] < run.ranks.size()) {
      for (auto& [rank, step] : held)
        std::erase_if(step->records, [](const Record& record) { return record.shard.has_value(); });
      continue;
    }
    for (const auto& [key, parts] : shards_of(run, held)) {
      for (auto& [part, whole] : Joining(run, number, parts).joined()) *part.record = whole;
    }
  }
}

}  // namespace lockstep::trace
