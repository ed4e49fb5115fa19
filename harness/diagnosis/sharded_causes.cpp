#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/held.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/collective_record.h"

/// Causes that only trainings have whose tensors lie in parts on several ranks.
namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

/// A factor is exact but for rounding.
constexpr double kSameFactor = 1e-4;

/// All-reduces of a rank in a step.
std::size_t allreduces(const Held& held) {
  const auto all = held.all(Channel::kCollective);
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const trace::Record* record) {
    const auto collective = trace::collective_of(*record);
    return collective && collective->is_allreduce();
  }));
}

/// Ranks of one share of the batch have one loss, and other gradients of tensors that each of them holds whole.
std::vector<Suspect> parts_of_a_sum(const Side& side, std::int64_t step) {
  const trace::RunTrace& run = *side.run;
  if (trace::batch_shares_of(run) == run.world_size()) return {};
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    const std::int64_t share = trace::batch_share_of(run.ranks[rank]).number;
    std::size_t first = 0;
    while (trace::batch_share_of(run.ranks[first]).number != share) ++first;
    const Held of_first(run, first, step), its(run, rank, step);
    if (first == rank || !laws::same(of_first, its, Channel::kLoss)) continue;
    const auto gradients = laws::final_gradients(its);
    std::vector<std::string> apart;
    for (const auto& [name, expected] : laws::final_gradients(of_first)) {
      const auto found = gradients.find(name);
      if (found == gradients.end() || trace::same_bits(expected, found->second)) continue;
      if (!expected->layout.empty()) return {};
      apart.push_back(name);
    }
    if (apart.empty()) continue;
    return {{"grad.not_reduced",
             {place_of(run, step) + ": rank " + std::to_string(first) + " and rank " + std::to_string(rank) +
                  " split tensors, compute one share of the batch together and have one loss",
              "they update with other gradients of " + std::to_string(apart.size()) +
                  " tensors that each of them holds whole (" + some_of(apart, 3) +
                  "): what the ranks contribute was not added"}}};
  }
  return {};
}

/// By how much some gradients of `its` exceed those of `theirs`, which all others equal: one number; nothing otherwise.
struct Excess {
  double factor = 1;
  std::vector<std::string> names;
};

std::optional<Excess> excess_of(const Held& its, const Held& theirs) {
  Excess excess;
  std::size_t equal = 0;
  for (const trace::Record* record : its.all(Channel::kGradient)) {
    const trace::Record* other = laws::is_plain(*record) ? theirs.find(Channel::kGradient, record->name) : nullptr;
    if (other == nullptr || !record->sketch || !other->sketch) continue;
    if (trace::same_bits(record, other)) {
      ++equal;
      continue;
    }
    const auto scale = trace::scale_between(*other->sketch, *record->sketch);
    if (!scale || scale->residual > kSameFactor) return std::nullopt;
    if (excess.names.empty()) excess.factor = scale->factor;
    if (std::fabs(scale->factor / excess.factor - 1) > kSameFactor) return std::nullopt;
    excess.names.push_back(record->name);
  }
  return excess.names.empty() || equal == 0 ? std::nullopt : std::optional(excess);
}

/// One side has reduced some gradients once more, which its ranks hold whole and alike.
std::vector<Suspect> reduced_again(const Side& side, const Side& other, std::int64_t step) {
  const Held its(*side.run, 0, step), theirs(*other.run, 0, step);
  const auto excess = excess_of(its, theirs);
  if (!excess || allreduces(its) <= allreduces(theirs)) return {};
  const double ranks = std::round(std::max(excess->factor, 1 / excess->factor));
  const bool is_sum = std::fabs(excess->factor / ranks - 1) < kSameFactor,
             is_mean = std::fabs(excess->factor * ranks - 1) < kSameFactor;
  if (ranks < 2 || std::fmod(static_cast<double>(side.run->world_size()), ranks) != 0 || (!is_sum && !is_mean))
    return {};
  return {{is_sum ? "grad.reduce_sum" : "grad.double_average",
           {place_of(*side.run, step) + ": " + std::to_string(excess->names.size()) + " gradients (" +
                some_of(excess->names, 3) + ") are " + rounded(excess->factor, 5) + " times those of " +
                other.run->run + ", all others are equal",
            side.run->run + " issues more all-reduces in this step"}}};
}

}  // namespace

std::vector<Suspect> suspects_in_sharded(const Scene& scene) {
  if (!trace::info(scene.at.channel).is_gradient()) return {};
  const std::int64_t step = scene.at.step;
  const auto found = between(scene, [step](const Side& side) { return parts_of_a_sum(side, step); });
  if (!found.empty() || !is_between_programs(scene) || scene.within_one_run()) return found;
  auto again = reduced_again(scene.right, scene.left, step);
  return again.empty() ? reduced_again(scene.left, scene.right, step) : again;
}

}  // namespace lockstep::diagnosis
