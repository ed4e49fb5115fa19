#include "harness/laws/replicas.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

constexpr std::array<Channel, 5> kCompared = {Channel::kGradient, Channel::kOptimizer, Channel::kWeight, Channel::kEma,
                                              Channel::kLedger};

bool is_compared(const Record& record) {
  return std::find(kCompared.begin(), kCompared.end(), record.channel) != kCompared.end();
}

bool are_equal(const Record& a, const Record& b) {
  return a.digest == b.digest && a.channel == b.channel && a.number == b.number && a.name == b.name;
}

/// Whether two ranks hold the same after a step; so do two that lack it.
bool hold_the_same(const trace::Step* a, const trace::Step* b) {
  if (a == nullptr || b == nullptr) return a == b;
  auto one = a->records.begin(), other = b->records.begin();
  for (;; ++one, ++other) {
    one = std::find_if(one, a->records.end(), is_compared);
    other = std::find_if(other, b->records.end(), is_compared);
    if (one == a->records.end() || other == b->records.end())
      return one == a->records.end() && other == b->records.end();
    if (!are_equal(*one, *other)) return false;
  }
}

}  // namespace

void for_each_own_state(const trace::RunTrace& run, Outcome& outcome,
                        const std::function<bool(std::int64_t step, std::int64_t rank)>& visit) {
  const auto is_alike = [&](std::size_t rank, std::int64_t step) {
    return hold_the_same(run.ranks[0].find(step), run.ranks[rank].find(step));
  };
  std::vector<std::int64_t> alike_at(run.ranks.size(), trace::kInitialStep - 1);  // the last step, by rank
  for (const trace::Step& step : run.ranks[0].steps) {
    std::size_t judged_of_first = 0;
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const bool is_now = rank > 0 && is_alike(rank, step.step);
      const bool is_replica = is_now && (alike_at[rank] == step.step - 1 || is_alike(rank, step.step - 1));
      if (is_now) alike_at[rank] = step.step;
      if (is_replica) {
        outcome.judged += judged_of_first;
        continue;
      }
      const std::size_t judged = outcome.judged;
      if (!visit(step.step, static_cast<std::int64_t>(rank))) return;
      if (rank == 0) judged_of_first = outcome.judged - judged;
    }
  }
}

}  // namespace lockstep::laws
