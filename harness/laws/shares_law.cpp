#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "harness/laws/contents.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/promise.h"
#include "harness/laws/seen_facts.h"
#include "harness/recipe/sampler_rule.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

/// Samples of a program: each rank takes its own, each epoch has an order of its own, and each loader worker its part.
namespace lockstep::laws {
namespace {

using trace::Channel;
using Samples = std::vector<std::int64_t>;

/// What a rank took in a step; empty where nothing is recorded.
Samples taken_in(const trace::RunTrace& run, std::size_t rank, std::int64_t step) {
  const trace::Step* found = run.ranks[rank].find(step);
  const trace::Record* samples = found == nullptr ? nullptr : samples_in(*found);
  return samples == nullptr ? Samples() : samples->integers;
}

/// Where a rank's samples of a step stand.
RecordPlace samples_at(std::int64_t step, std::int64_t rank, const Held& held) {
  return {step, Channel::kSamples, held.find(Channel::kSamples, "ids") != nullptr ? "ids" : "items", rank};
}

/// Items are known by their content, and a recipe's ids are those of its data.
bool ids_need_proof(const scenario::Promises& promises, const Held& held) {
  return promises.known && held.find(Channel::kSamples, "ids") != nullptr;
}

/// Whether the sampler of a rank was told another number of shares, or another one of them, than the rank computes.
bool deals_otherwise(const trace::Trace& rank) {
  const Json seen = rank.header.value("seen", Json::object());
  const Json sampler = seen.is_object() ? seen.value("sampler", Json::object()) : Json::object();
  const trace::BatchShare share = trace::batch_share_of(rank);
  return sampler.is_object() && sampler.contains("num_replicas") &&
         (sampler["num_replicas"] != Json(share.count) || sampler.value("rank", Json()) != Json(share.number));
}

/// Whether all ranks take the same in all steps.
bool all_take_the_same(const trace::RunTrace& run) {
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    for (const trace::Step& step : run.ranks[0].steps) {
      if (taken_in(run, 0, step.step) != taken_in(run, rank, step.step)) return false;
    }
  }
  return true;
}

/// A rank takes what rank 0 takes, in all steps. `untold`: why that could not be told, where it could not.
std::optional<Breach> are_not_split(const trace::RunTrace& run, const scenario::Promises& promises,
                                    std::string& untold) {
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    const std::string number = std::to_string(run.ranks[rank].rank);
    std::set<std::int64_t> all;
    bool same = true;
    for (const trace::Step& step : run.ranks[0].steps) {
      const Samples first = taken_in(run, 0, step.step);
      same = same && first == taken_in(run, rank, step.step);
      all.insert(first.begin(), first.end());
    }
    if (!same || all.size() < recipe::kFewInOrder) continue;
    std::int64_t at = run.ranks[0].steps.front().step;
    while (taken_in(run, rank, at).empty()) ++at;
    const Common ids = ids_need_proof(promises, Held(run, rank, at))
                           ? share_their_ids(run, 0, steps_of(run.ranks[0]), rank, steps_of(run.ranks[rank]))
                           : Common::kShared;
    if (ids == Common::kUntold)
      untold = "ranks 0 and " + number +
               " take the same ids in all steps, and their inputs do not show whether those are the same samples";
    if (ids != Common::kShared) continue;
    return seen_breach(samples_at(at, run.ranks[rank].rank, Held(run, rank, at)), "samples that rank 0 does not take",
                       "in all steps ranks 0 and " + number + " take the same " + std::to_string(all.size()) +
                           " samples in the same order",
                       all_take_the_same(run)             ? "data.not_sharded"
                       : deals_otherwise(run.ranks[rank]) ? "data.sampler_options"
                                                          : "");
  }
  return std::nullopt;
}

/// Samples of one pass over the data, and where it begins.
struct Pass {
  std::int64_t first = 0;
  std::int64_t epoch = 0;  ///< that its sampler was told
  Samples samples;
  StepNumbers steps;
};

using Passes = std::map<std::int64_t, Pass>;

/// Passes of a rank by their number; nothing unless each step is recorded.
Passes passes_of(const trace::RunTrace& run, std::size_t rank) {
  Passes passes;
  if (seen_of(run, "every") != Json(1)) return passes;
  for (const trace::Step& step : run.ranks[rank].steps) {
    const trace::Record *epoch = step.find(Channel::kLedger, trace::entry::kEpoch),
                        *number = step.find(Channel::kLedger, trace::entry::kPasses);
    const trace::Record* const samples = samples_in(step);
    if (samples == nullptr || samples->integers.empty() || epoch == nullptr || epoch->integers.empty()) continue;
    const std::int64_t which = number == nullptr || number->integers.empty() ? epoch->integers[0] : number->integers[0];
    Pass& pass =
        passes.try_emplace(which, Pass{.first = step.step, .epoch = epoch->integers[0], .samples = {}, .steps = {}})
            .first->second;
    pass.samples.insert(pass.samples.end(), samples->integers.begin(), samples->integers.end());
    pass.steps.push_back(step.step);
  }
  return passes;
}

/// Samples that the ranks of a step take at most: as many may come twice in a pass, where a round is filled up.
std::size_t round_of(const trace::RunTrace& run) {
  std::size_t most = 0;
  for (const trace::Step& step : run.ranks[0].steps) most = std::max(most, taken_in(run, 0, step.step).size());
  return most * run.ranks.size();
}

/// Two ranks take more of the same samples in a pass than a round holds, and each takes a sample once. `untold`: why
/// that could not be told, where it could not.
std::optional<Breach> overlap(const trace::RunTrace& run, const Passes& of_first_rank, std::string& untold) {
  std::vector<Passes> all = {of_first_rank};
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) all.push_back(passes_of(run, rank));
  const Json sampler = seen_of(run, "sampler");
  const bool distributed = sampler.is_object() && sampler.value("kind", Json()) == Json("distributed");
  // DistributedSampler fills up to equal shares; others may fill a round.
  const std::size_t filled_up = distributed ? run.ranks.size() - 1 : round_of(run);
  const bool one_size = std::all_of(run.ranks.begin(), run.ranks.end(), [&](const trace::Trace& rank) {
    return samples_in(rank) == samples_in(run.ranks[0]);
  });
  for (const auto& [number, first] : all[0]) {
    if (Held(run, 0, first.first).find(Channel::kSamples, "ids") == nullptr) return std::nullopt;
    std::set<std::int64_t> taken;
    std::size_t again = 0;
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const auto pass = all[rank].find(number);
      if (pass == all[rank].end()) continue;
      const std::set<std::int64_t> own(pass->second.samples.begin(), pass->second.samples.end());
      if (own.size() != pass->second.samples.size()) {
        untold = "rank " + std::to_string(rank) + " takes samples more than once in pass " + std::to_string(number) +
                 ", as samplers do that draw with replacement";
        return std::nullopt;
      }
      for (const std::int64_t sample : own) again += !taken.insert(sample).second;
      bool is_proven = false, is_open = false;
      for (std::size_t other = 0; other < rank && again > filled_up && !is_proven; ++other) {
        const auto others = all[other].find(number);
        if (others == all[other].end()) continue;
        const Common ids = share_their_ids(run, other, others->second.steps, rank, pass->second.steps);
        is_proven = ids == Common::kShared;
        is_open = is_open || ids == Common::kUntold;
      }
      if (!is_proven && is_open && untold.empty())
        untold = "ranks take " + std::to_string(again) + " of the same ids in pass " + std::to_string(number) +
                 ", and their inputs do not show whether those are the same samples";
      if (!is_proven) continue;
      return seen_breach(samples_at(pass->second.first, run.ranks[rank].rank, Held(run, rank, pass->second.first)),
                         "samples that no other rank takes in this pass",
                         "in pass " + std::to_string(number) + ", " + std::to_string(again) +
                             " samples are taken by two ranks; filling up explains " + std::to_string(filled_up),
                         !one_size     ? "data.content"
                         : distributed ? "data.permutation_rank_dependent"
                                       : "data.not_sharded");
    }
  }
  return std::nullopt;
}

/// A sampler that shuffles gives a pass the order of another one, because it was told the same epoch.
std::optional<Breach> repeat_their_order(const trace::RunTrace& run, const Passes& passes) {
  const Json sampler = seen_of(run, "sampler");
  if (!sampler.is_object() || sampler.value("kind", Json()) != Json("distributed") ||
      sampler.value("shuffle", Json()) != Json(true))
    return std::nullopt;
  const Pass* before = nullptr;
  for (const auto& [number, pass] : passes) {
    if (pass.epoch != passes.begin()->second.epoch) return std::nullopt;  // it is told: an epoch may take two passes
  }
  for (const auto& [number, pass] : passes) {
    const bool known = before != nullptr && before->epoch == pass.epoch && pass.samples.size() >= recipe::kFewInOrder;
    if (known && before->samples.size() >= pass.samples.size() &&
        std::equal(pass.samples.begin(), pass.samples.end(), before->samples.begin()))
      return seen_breach(samples_at(pass.first, 0, Held(run, 0, pass.first)),
                         "another order, because the sampler shuffles",
                         "pass " + std::to_string(number) + " takes the same " + std::to_string(pass.samples.size()) +
                             " samples in the same order as the pass before; its sampler had epoch " +
                             std::to_string(pass.epoch) + " both times",
                         "data.epoch_not_advanced");
    before = &pass;
  }
  return std::nullopt;
}

/// Each of k loader workers gives every sample of a stream: all come k times.
std::optional<Breach> come_from_each_worker(const trace::RunTrace& run, const Passes& passes) {
  const Json workers = seen_of(run, "loader_workers");
  if (passes.empty() || !workers.is_number_integer() || workers.get<std::size_t>() < 2) return std::nullopt;
  const Pass& pass = passes.begin()->second;
  const Held held(run, 0, pass.first);
  if (held.find(Channel::kSamples, "ids") != nullptr) return std::nullopt;
  std::map<std::int64_t, std::size_t> times;
  for (const std::int64_t item : pass.samples) ++times[item];
  const bool all = std::all_of(times.begin(), times.end(),
                               [&](const auto& item) { return item.second == workers.get<std::size_t>(); });
  if (!all || times.size() < recipe::kFewInOrder) return std::nullopt;
  return seen_breach(samples_at(pass.first, 0, held), "each sample once",
                     "each of " + std::to_string(times.size()) + " samples comes " +
                         std::to_string(workers.get<std::size_t>()) +
                         " times in an epoch, once from each loader worker",
                     "");
}

}  // namespace

/// Whether the ranks have to take samples of their own. A sampler that is no class of torch, and so is named by its
/// class, may repeat some on purpose, as RASampler does. Fewer samples than a round may fill up the ranks alike.
bool are_to_split(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) {
    const Json sampler = seen_of(run, "sampler");
    const std::string kind = sampler.is_object() && sampler.contains("kind") ? sampler["kind"].dump() : "";
    const bool is_their_own = kind.size() > 1 && std::isupper(static_cast<unsigned char>(kind[1])) != 0;
    return !is_their_own && (ddp_has(run, "wrap") || ddp_has(run, "sharded"));
  }
  const recipe::TrainSpec& train = promises.train;
  const std::int64_t round = train.batch.micro_size(promises.world_size) * promises.world_size;
  return !takes_everything_on_every_rank(train.sampler) && !train.data.options.value("per_rank", false) &&
         samples_of(run, promises) >= round;
}

std::string no_shares_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  if (promises.known || begins_within_an_epoch(promises.train)) return "";
  return "the check `covers` judges the samples of a recipe";
}

/// Ranks that compute one share of the batch together take the same samples, in each step.
std::optional<Breach> are_apart(const trace::RunTrace& run) {
  std::map<std::int64_t, std::size_t> first_of;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto [known, is_new] = first_of.try_emplace(trace::batch_share_of(run.ranks[rank]).number, rank);
    if (is_new) continue;
    for (const trace::Step& step : run.ranks[rank].steps) {
      const bool have_both = run.ranks[known->second].find(step.step) != nullptr;
      if (!have_both || taken_in(run, rank, step.step) == taken_in(run, known->second, step.step)) continue;
      return seen_breach(
          samples_at(step.step, static_cast<std::int64_t>(rank), Held(run, rank, step.step)),
          "the samples of rank " + std::to_string(known->second),
          "ranks " + std::to_string(known->second) + " and " + std::to_string(rank) +
              " split tensors and so compute one share of the batch together, but take other samples",
          deals_otherwise(run.ranks[rank]) || deals_otherwise(run.ranks[known->second]) ? "data.sampler_options" : "");
    }
  }
  return std::nullopt;
}

Outcome judge_shares(const trace::RunTrace& all, const scenario::Promises& promises) {
  Outcome outcome;
  for (const trace::Step& step : all.ranks[0].steps) outcome.judged += !taken_in(all, 0, step.step).empty();
  if (outcome.judged == 0) return outcome;
  outcome.broken = are_apart(all);
  if (outcome.broken) return outcome;
  const bool has_own = trace::batch_shares_of(all) == all.world_size();
  const std::optional<trace::RunTrace> by_share =
      has_own ? std::nullopt : std::optional(trace::one_rank_for_each_share(all));
  const trace::RunTrace& run = has_own ? all : *by_share;
  const Passes passes = passes_of(run, 0);
  std::string untold;
  if (are_to_split(run, promises)) {
    outcome.broken = are_not_split(run, promises, untold);
    if (!outcome.broken && promises.known) outcome.broken = overlap(run, passes, untold);
  }
  if (!outcome.broken) outcome.broken = repeat_their_order(run, passes);
  if (!outcome.broken) outcome.broken = come_from_each_worker(run, passes);
  if (!outcome.broken) outcome.because = untold;
  return outcome;
}

}  // namespace lockstep::laws
