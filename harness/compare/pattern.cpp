#include "harness/compare/pattern.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/base/text.h"
#include "harness/compare/scope.h"
#include "harness/laws/scales.h"
#include "harness/trace/collective_record.h"
#include "harness/trace/entry.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// Records of one channel that differ between two ranks in a step, by name; `total`: that both have.
struct Unequal {
  std::vector<const trace::Record*> records;  ///< of the right side
  std::size_t total = 0;
};

class Comparer {
 public:
  Comparer(const trace::RunTrace& left, const trace::RunTrace& right, const Divergence& at)
      : left_(left), right_(right), at_(at), same_shape_(same_shape(left, right)) {}

  Unequal unequal(std::int64_t step, std::size_t rank) const {
    Unequal found;
    const trace::Step* a = left_.ranks[rank < left_.ranks.size() ? rank : 0].find(step);
    const trace::Step* b = right_.ranks[rank].find(step);
    if (a == nullptr || b == nullptr) return found;
    for (const trace::Record& record : b->records) {
      if (record.channel != at_.channel) continue;
      ++found.total;
      if (!trace::same_bits(a->find(record.channel, record.name), &record)) found.records.push_back(&record);
    }
    for (const trace::Record& record : a->records) {
      if (record.channel != at_.channel || b->find(record.channel, record.name) != nullptr) continue;
      ++found.total;
      found.records.push_back(&record);
    }
    return found;
  }

  /// Ranks to look at: of different shapes only what all ranks share.
  std::size_t ranks() const { return same_shape_ ? right_.ranks.size() : 1; }

  bool differs(std::int64_t step) const {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (!unequal(step, rank).records.empty()) return true;
    }
    return false;
  }

 private:
  const trace::RunTrace& left_;
  const trace::RunTrace& right_;
  const Divergence& at_;
  bool same_shape_;
};

/// Whether unequal records are no pattern: what may round differs before the place already, or may do so anywhere,
/// and between different shapes rank 0 takes other samples in every step by right.
bool differ_anyhow(const trace::RunTrace& left, const trace::RunTrace& right, const Divergence& at) {
  if (!same_shape(left, right) && (trace::info(at.channel).can_round() || at.channel == Channel::kSamples)) return true;
  return trace::info(at.channel).can_round() && part_before(left, right, at.step, at.channel);
}

void add_ranks(const Comparer& comparer, const Divergence& at, std::vector<Pattern>& patterns) {
  if (comparer.ranks() < 2) return;
  std::vector<std::string> differing;
  for (std::size_t rank = 0; rank < comparer.ranks(); ++rank) {
    if (!comparer.unequal(at.step, rank).records.empty()) differing.push_back(std::to_string(rank));
  }
  const std::string of = ", of " + std::to_string(comparer.ranks());
  if (differing.size() == 1) patterns.push_back({"one_rank", "on rank " + differing[0] + " only" + of});
  if (differing.size() == comparer.ranks()) patterns.push_back({"all_ranks", "on all ranks"});
}

/// Elements of every all-reduce of a rank's step.
std::vector<double> buckets_of(const trace::Trace& rank, std::int64_t step) {
  std::vector<double> sizes;
  const trace::Step* found = rank.find(step);
  if (found == nullptr) return sizes;
  for (const trace::Record& record : found->records) {
    const auto collective = trace::collective_of(record);
    if (collective && collective->is_allreduce() && collective->elements)
      sizes.push_back(static_cast<double>(*collective->elements));
  }
  return sizes;
}

void add_tensors(const Comparer& comparer, const trace::RunTrace& right, const Divergence& at, std::size_t rank,
                 std::vector<Pattern>& patterns) {
  const Unequal found = comparer.unequal(at.step, rank);
  if (found.total < 2 || found.records.empty()) return;
  std::vector<std::string> names;
  double elements = 0;
  for (const trace::Record* record : found.records) {
    names.push_back(record->name);
    elements += laws::count_of(*record);
  }
  const std::string of = std::to_string(found.total);
  if (names.size() == found.total) return patterns.push_back({"all_tensors", "in all " + of + " tensors"});
  if (names.size() == 1) {
    patterns.push_back({"one_tensor", "in " + names[0] + " only, of " + of + " tensors"});
  } else {
    patterns.push_back(
        {"some_tensors", "in " + std::to_string(names.size()) + " of " + of + " tensors: " + some_of(names, 6)});
  }
  const std::vector<double> buckets = buckets_of(right.ranks[rank], at.step);
  if (at.channel == Channel::kGradient && buckets.size() > 1 &&
      std::count(buckets.begin(), buckets.end(), elements) == 1)
    patterns.push_back({"one_bucket", "these are the " + to_decimal(elements) + " elements of one bucket, of " +
                                          std::to_string(buckets.size())});
}

/// The epoch that a step belongs to, at its end; nothing where it is not recorded.
std::optional<std::int64_t> epoch_after(const trace::Step& step) {
  const trace::Record* epoch = step.find(Channel::kLedger, trace::entry::kEpoch);
  return epoch == nullptr || epoch->integers.empty() ? std::nullopt : std::optional(epoch->integers[0]);
}

void add_steps(const Comparer& comparer, const trace::RunTrace& right, std::vector<Pattern>& patterns) {
  std::vector<std::int64_t> all, differing, ends;
  std::optional<std::int64_t> epoch;
  for (const trace::Step& step : right.ranks[0].steps) {
    if (step.step < 0) continue;
    all.push_back(step.step);
    if (comparer.differs(step.step)) differing.push_back(step.step);
    const auto after = epoch_after(step);
    if (epoch && after && *after != *epoch) ends.push_back(step.step);
    epoch = after;
  }
  if (differing.empty() || all.size() < 2) return;
  const std::string first = std::to_string(differing[0]);
  const auto from = std::find(all.begin(), all.end(), differing[0]);
  const bool to_the_end = std::equal(differing.begin(), differing.end(), from, all.end());
  if (differing.size() == all.size()) {
    patterns.push_back({"every_step", "in every step"});
  } else if (differing == ends && ends.size() > 1) {
    patterns.push_back({"epoch_ends", "in the last step of each epoch only"});
  } else if (differing.size() == 1 && differing[0] != all.back()) {
    patterns.push_back({"one_step", "in step " + first + " only"});
  } else if (to_the_end && differing.size() > 1) {
    patterns.push_back({"from_step", "from step " + first + " on"});
  }
}

void add_factor(const trace::RunTrace& left, const trace::RunTrace& right, const Divergence& at,
                std::int64_t micro_batches, std::vector<Pattern>& patterns) {
  const trace::Record* x = record_at(left, at);
  const trace::Record* y = record_at(right, at);
  if (x == nullptr || y == nullptr || !x->sketch || !y->sketch) return;
  const auto scale = trace::scale_between(*x->sketch, *y->sketch);
  constexpr double kFits = 1e-5;
  if (!scale || scale->residual > kFits) return;
  const auto ranks = static_cast<double>(right.world_size()), parts = static_cast<double>(micro_batches);
  const std::vector<std::pair<double, const char*>> known = {{ranks, "the number of ranks"},
                                                             {1 / ranks, "1 / the number of ranks"},
                                                             {parts, "the number of micro-batches"},
                                                             {1 / parts, "1 / the number of micro-batches"},
                                                             {ranks * parts, "ranks x micro-batches"},
                                                             {1 / (ranks * parts), "1 / (ranks x micro-batches)"},
                                                             {ranks * ranks, "the square of the number of ranks"},
                                                             {-1, "-1"}};
  std::vector<std::string> fitting;
  for (const auto& [value, what] : known) {
    if (value != 1 && std::fabs(scale->factor / value - 1) <= kFits) fitting.emplace_back(what);
  }
  if (!fitting.empty())
    patterns.push_back({"factor", "right = " + rounded(scale->factor, 6) + " x left: " + join(fitting, ", or ")});
}

}  // namespace

bool part_before(const trace::RunTrace& left, const trace::RunTrace& right, std::int64_t step, Channel channel,
                 std::int64_t begin) {
  for (std::size_t rank = 0; rank < std::min(left.ranks.size(), right.ranks.size()); ++rank) {
    for (const trace::Step& now : right.ranks[rank].steps) {
      const trace::Step* other = now.step < begin || now.step > step ? nullptr : left.ranks[rank].find(now.step);
      if (other == nullptr) continue;
      for (const trace::Record& record : now.records) {
        if (!trace::info(record.channel).can_round() || std::pair(now.step, record.channel) >= std::pair(step, channel))
          continue;
        const trace::Record* found = other->find(record.channel, record.name);
        if (found != nullptr && !trace::same_bits(found, &record)) return true;
      }
    }
  }
  return false;
}

std::vector<Pattern> patterns_of(const trace::RunTrace& left, const trace::RunTrace& right,
                                 const Divergence& divergence, std::int64_t micro_batches) {
  const Comparer comparer(left, right, divergence);
  const auto rank = divergence.rank < right.world_size() ? static_cast<std::size_t>(divergence.rank) : 0;
  std::vector<Pattern> patterns;
  if (!differ_anyhow(left, right, divergence)) {
    add_ranks(comparer, divergence, patterns);
    add_tensors(comparer, right, divergence, rank, patterns);
    add_steps(comparer, right, patterns);
  }
  add_factor(left, right, divergence, micro_batches, patterns);
  return patterns;
}

}  // namespace lockstep::compare
