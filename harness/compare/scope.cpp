#include "harness/compare/scope.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// Ledger entries that do not depend on the shape.
bool is_shared_entry(const std::string& name) {
  return name.starts_with(trace::entry::kLearningRate) || name == trace::entry::kUpdates ||
         name == trace::entry::kEpoch;
}

/// Samples that all ranks take in one step.
struct GlobalBatch {
  std::vector<std::int64_t> ids;  ///< sorted
  bool recorded = false;
  bool whole = true;  ///< every record holds its ids
};

GlobalBatch global_batch(const trace::RunTrace& run, std::int64_t step) {
  GlobalBatch batch;
  for (std::size_t number = 0; number < run.ranks.size(); ++number) {
    const trace::Record* record = run.ranks[number].find(step, Channel::kSamples, "ids");
    if (record == nullptr || !trace::is_first_of_share(run, number)) continue;
    batch.recorded = true;
    const bool has_ids =
        record->shape.size() == 1 && record->shape[0] == static_cast<std::int64_t>(record->integers.size());
    batch.whole = batch.whole && has_ids;
    batch.ids.insert(batch.ids.end(), record->integers.begin(), record->integers.end());
  }
  std::sort(batch.ids.begin(), batch.ids.end());
  return batch;
}

std::string more(const std::vector<std::int64_t>& ids, const char* what) {
  if (ids.empty()) return "";
  return "; sample " + std::to_string(ids[0]) +
         (ids.size() > 1 ? " and " + std::to_string(ids.size() - 1) + " more are " : " is ") + what;
}

bool has_step(const trace::RunTrace& run, std::int64_t step) {
  return std::any_of(run.ranks.begin(), run.ranks.end(),
                     [&](const trace::Trace& rank) { return rank.find(step) != nullptr; });
}

/// First step in which the global batches are not the same samples.
Comparison compare_global_batches(const trace::RunTrace& left, const trace::RunTrace& right, const Scope& scope) {
  Comparison result;
  std::set<std::int64_t> steps;
  for (const trace::RunTrace* run : {&left, &right}) {
    for (const trace::Trace& rank : run->ranks) {
      for (const trace::Step& step : rank.steps) {
        const bool wanted = step.step >= scope.first_step && step.step < scope.end_step &&
                            !(scope.skip && scope.skip(Channel::kSamples, "ids", step.step));
        if (wanted && step.find(Channel::kSamples, "ids") != nullptr) steps.insert(step.step);
      }
    }
  }
  for (const std::int64_t step : steps) {
    const GlobalBatch a = global_batch(left, step), b = global_batch(right, step);
    if (!a.whole || !b.whole || (scope.common_steps_only && a.recorded != b.recorded)) continue;
    if (scope.watch) {
      scope.watch({.at = {.step = step, .channel = Channel::kSamples, .tensor = "ids"}, .same = a.ids == b.ids});
      continue;
    }
    ++result.compared;
    result.channels.insert(Channel::kSamples);
    if (a.ids == b.ids) continue;
    std::vector<std::int64_t> missing, extra;
    std::set_difference(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end(), std::back_inserter(missing));
    std::set_difference(b.ids.begin(), b.ids.end(), a.ids.begin(), a.ids.end(), std::back_inserter(extra));
    result.first = Divergence{
        .step = step,
        .channel = Channel::kSamples,
        .tensor = "ids",
        .rank = 0,
        .left = left.run,
        .right = right.run,
        .expected = std::to_string(a.ids.size()) + " samples in the global batch",
        .actual = std::to_string(b.ids.size()) + " samples" + more(missing, "missing") + more(extra, "extra")};
    if (!has_step(left, step)) result.first->left.missing = Missing::kStep;
    if (!has_step(right, step)) result.first->right.missing = Missing::kStep;
    explain(*result.first, {.world_size = right.world_size()});
    return result;
  }
  return result;
}

/// Names of a step's losses, one for each micro-batch; of the inputs where no loss is recorded.
std::set<std::string> names_of_losses(const trace::RunTrace& run) {
  std::set<std::string> losses, inputs;
  for (const trace::Step& step : run.ranks[0].steps) {
    for (const trace::Record& record : step.records) {
      if (record.channel == Channel::kLoss) losses.insert(record.name);
      if (record.channel == Channel::kInput) inputs.insert(record.name);
    }
    if (!losses.empty() || !inputs.empty()) break;
  }
  return losses.empty() ? inputs : losses;
}

}  // namespace

bool same_shape(const trace::RunTrace& left, const trace::RunTrace& right) {
  const std::set<std::string> losses_left = names_of_losses(left), losses_right = names_of_losses(right);
  const bool unknown = losses_left.empty() || losses_right.empty();
  return left.world_size() == right.world_size() && trace::batch_shares_of(left) == trace::batch_shares_of(right) &&
         (unknown || losses_left == losses_right);
}

Scope held_by_both(const trace::RunTrace& left, const trace::RunTrace& right) {
  return {.common_steps_only = true,
          .skip = [&left, &right](Channel channel, const std::string& name, std::int64_t step) {
            const auto lacks = [&](const trace::RunTrace& run) {
              const trace::Step* found = run.ranks[0].find(step);
              return found == nullptr || found->find(channel, name) == nullptr;
            };
            return lacks(left) || lacks(right);
          }};
}

PairsOf pairs_between(const trace::RunTrace& left, const trace::RunTrace& right) {
  return [&left, &right](Channel) {
    std::vector<Pair> pairs;
    for (std::size_t rank = 0; rank < std::max(left.ranks.size(), right.ranks.size()); ++rank) {
      pairs.push_back({.left = &left.ranks[rank < left.ranks.size() ? rank : 0],
                       .right = &right.ranks[rank < right.ranks.size() ? rank : 0],
                       .rank = static_cast<std::int64_t>(rank)});
    }
    return pairs;
  };
}

Comparison compare_runs(const trace::RunTrace& left, const trace::RunTrace& right, const std::vector<Channel>& channels,
                        const Relation& relation, const Scope& scope) {
  Walk walk{.pairs = pairs_between(left, right),
            .channels = channels,
            .relation = relation,
            .first_step = scope.first_step,
            .end_step = scope.end_step,
            .common_steps_only = scope.common_steps_only,
            .skip = scope.skip,
            .left_name = left.run,
            .right_name = right.run,
            .watch = scope.watch};
  if (same_shape(left, right)) return compare(walk);

  Comparison samples;
  std::erase(walk.channels, Channel::kSamples);
  if (walk.channels.size() != channels.size()) samples = compare_global_batches(left, right, scope);
  walk.skip = [&scope](Channel channel, const std::string& name, std::int64_t step) {
    const bool of_one_shape = (channel == Channel::kLoss && name != trace::entry::kReduced) ||
                              (channel == Channel::kLedger && !is_shared_entry(name));
    return of_one_shape || (scope.skip && scope.skip(channel, name, step));
  };
  Comparison rest = compare(walk);
  rest.compared += samples.compared;
  rest.channels.merge(samples.channels);
  // Samples come first within a step.
  if (samples.first && (!rest.first || samples.first->step <= rest.first->step)) rest.first = samples.first;
  return rest;
}

const trace::Record* record_at(const trace::RunTrace& run, const Divergence& divergence) {
  const auto rank = divergence.rank < run.world_size() ? static_cast<std::size_t>(divergence.rank) : 0;
  return run.ranks[rank].find(divergence.step, divergence.channel, divergence.tensor);
}

}  // namespace lockstep::compare
