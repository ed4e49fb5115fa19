#include <algorithm>

#include "harness/base/text.h"
#include "harness/compare/check.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// Rank 0 against each other rank.
PairsOf against_rank_0(const trace::RunTrace& run) {
  return [&run](Channel) {
    std::vector<Pair> pairs;
    for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) pairs.push_back({&run.ranks[0], &run.ranks[rank], static_cast<std::int64_t>(rank)});
    return pairs;
  };
}

/// The channels of the check that every rank holds the same by design, unless it names others itself.
std::vector<Channel> agreeing_channels(const CheckInput& input) {
  std::vector<Channel> channels = channels_of(input, true);
  if (input.spec.channels.empty()) {
    std::erase_if(channels, [](Channel channel) { return trace::info(channel).sharing != trace::Sharing::kReplicated; });
  }
  return channels;
}

/// Digests of one channel of one rank in one step.
std::vector<trace::Digest> digests_of(const trace::Step& step, Channel channel) {
  std::vector<trace::Digest> digests;
  for (const trace::Record& record : step.records) {
    if (record.channel == channel) digests.push_back(record.digest);
  }
  return digests;
}

/// First pair of ranks that hold the same in `channel` at one step of the first rank's trace.
std::optional<Divergence> first_agreement(const trace::RunTrace& run, const trace::Step& step, Channel channel, std::size_t& compared) {
  std::vector<std::vector<trace::Digest>> seen;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const trace::Step* of_rank = run.ranks[rank].find(step.step);
    seen.push_back(of_rank == nullptr ? std::vector<trace::Digest>() : digests_of(*of_rank, channel));
    if (seen.back().empty()) continue;
    for (std::size_t other = 0; other < rank; ++other) {
      ++compared;
      if (seen[other] != seen[rank]) continue;
      return Divergence{.step = step.step, .channel = channel, .rank = static_cast<std::int64_t>(rank), .left = "rank " + std::to_string(other), .right = run.run + " rank " + std::to_string(rank), .expected = "other content than rank " + std::to_string(other), .actual = "the same content", .class_ = "semantic", .cause = "two ranks work on the same: sampler without ranks, seeds without ranks, or one shard given twice"};
    }
  }
  return std::nullopt;
}

}  // namespace

CheckResult check_ranks_agree(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(variant)) {
      const trace::RunTrace& run = *repeat;
      if (run.world_size() < 2) continue;
      CheckResult result = result_of(compare({.pairs = against_rank_0(run), .channels = agreeing_channels(input), .relation = bitwise, .left_name = run.run + " rank 0", .right_name = run.run}));
      if (result.divergence) result.divergence->right = run.run + " rank " + std::to_string(result.divergence->rank);
      combine(total, std::move(result));
    }
  }
  return total;
}

CheckResult check_ranks_differ(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(variant)) {
      const trace::RunTrace& run = *repeat;
      if (run.world_size() < 2) continue;
      for (const Channel channel : channels_of(input, true)) {
        Comparison comparison;
        for (const trace::Step& step : run.ranks[0].steps) {
          if (!comparison.first) comparison.first = first_agreement(run, step, channel, comparison.compared);
        }
        combine(total, result_of(comparison));
      }
    }
  }
  return total;
}

}  // namespace lockstep::compare
