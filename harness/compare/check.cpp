#include "harness/compare/check.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Sharing;

/// Ledger entries that do not depend on the world size.
const std::set<std::string> kSharedLedger = {"learning_rate", "updates", "epoch"};

bool comparable_across_world_sizes(Channel channel) {
  if (channel == Channel::kSamples || channel == Channel::kLoss) return true;
  return trace::info(channel).sharing == Sharing::kReplicated && channel != Channel::kCollective;
}

std::vector<std::int64_t> global_batch(const trace::RunTrace& run, std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* found = rank.find(step);
    const trace::Record* record = found == nullptr ? nullptr : found->find(Channel::kSamples, "ids");
    if (record != nullptr) ids.insert(ids.end(), record->integers.begin(), record->integers.end());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// First step in which the global batches are not the same samples.
std::optional<Divergence> compare_global_batches(const trace::RunTrace& left, const trace::RunTrace& right, std::size_t& compared) {
  std::set<std::int64_t> steps;
  for (const trace::RunTrace* run : {&left, &right}) {
    for (const trace::Step& step : run->ranks[0].steps) {
      if (step.find(Channel::kSamples, "ids") != nullptr) steps.insert(step.step);
    }
  }
  for (const std::int64_t step : steps) {
    const std::vector<std::int64_t> a = global_batch(left, step), b = global_batch(right, step);
    ++compared;
    if (a == b) continue;
    std::vector<std::int64_t> missing, extra;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(missing));
    std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(extra));
    Divergence divergence{.step = step, .channel = Channel::kSamples, .tensor = "ids", .rank = 0, .left = left.run, .right = right.run, .expected = std::to_string(a.size()) + " samples in the global batch", .actual = std::to_string(b.size()) + " samples"};
    if (!missing.empty()) divergence.actual += "; sample " + std::to_string(missing[0]) + " and " + std::to_string(missing.size() - 1) + " more are missing";
    if (!extra.empty()) divergence.actual += "; sample " + std::to_string(extra[0]) + " and " + std::to_string(extra.size() - 1) + " more are extra";
    explain(divergence, right.world_size());
    return divergence;
  }
  return std::nullopt;
}

int severity(CheckResult::Status status) {
  switch (status) {
    case CheckResult::Status::kDivergence: return 3;
    case CheckResult::Status::kInconclusive: return 2;
    case CheckResult::Status::kBaseline: return 1;
    case CheckResult::Status::kAgree: return 0;
  }
  return 3;
}

}  // namespace

std::vector<Channel> channels_of(const CheckInput& input, bool same_world_size) {
  std::vector<Channel> channels;
  for (const trace::ChannelInfo& row : trace::kChannels) {
    const auto& named = input.spec.channels;
    const bool wanted = named.empty() || std::find(named.begin(), named.end(), row.name) != named.end();
    const bool recorded = std::all_of(input.spec.variants.begin(), input.spec.variants.end(), [&](const std::string& name) {
      const auto& channels_recorded = input.scenario.variant(name).train.record.channels;
      return std::find(channels_recorded.begin(), channels_recorded.end(), row.name) != channels_recorded.end();
    });
    if (wanted && recorded && (same_world_size || comparable_across_world_sizes(row.channel))) channels.push_back(row.channel);
  }
  return channels;
}

PairsOf pairs_between(const trace::RunTrace& left, const trace::RunTrace& right) {
  return [&left, &right](Channel) {
    std::vector<Pair> pairs;
    for (std::size_t rank = 0; rank < std::max(left.ranks.size(), right.ranks.size()); ++rank) {
      pairs.push_back({.left = &left.ranks[rank < left.ranks.size() ? rank : 0], .right = &right.ranks[rank < right.ranks.size() ? rank : 0], .rank = static_cast<std::int64_t>(rank)});
    }
    return pairs;
  };
}

Comparison compare_runs(const trace::RunTrace& left, const trace::RunTrace& right, const std::vector<Channel>& channels, const Relation& relation) {
  Walk walk{.pairs = pairs_between(left, right), .channels = channels, .relation = relation, .left_name = left.run, .right_name = right.run};
  if (left.world_size() == right.world_size()) return compare(walk);

  Comparison samples;
  std::erase(walk.channels, Channel::kSamples);
  if (walk.channels.size() != channels.size()) samples.first = compare_global_batches(left, right, samples.compared);
  walk.skip = [](Channel channel, const std::string& name, std::int64_t) {
    return (channel == Channel::kLoss && name != "reduced") || (channel == Channel::kLedger && !kSharedLedger.contains(name));
  };
  Comparison rest = compare(walk);
  rest.compared += samples.compared;
  // Samples come first within a step.
  if (samples.first && (!rest.first || samples.first->step <= rest.first->step)) rest.first = samples.first;
  return rest;
}

CheckResult result_of(const Comparison& comparison) {
  CheckResult result{.compared = comparison.compared, .divergence = comparison.first};
  if (comparison.first) {
    result.status = CheckResult::Status::kDivergence;
  } else if (comparison.compared == 0) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = "there was nothing to compare";
  }
  return result;
}

void combine(CheckResult& total, CheckResult next) {
  const std::size_t compared = total.compared + next.compared;
  if (severity(next.status) > severity(total.status)) total = std::move(next);
  total.compared = compared;
}

}  // namespace lockstep::compare
