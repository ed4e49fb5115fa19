#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/compare/rounding.h"
#include "harness/laws/finite.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/entry.h"

namespace lockstep::checks {
namespace {

using compare::Divergence;
using trace::Channel;

/// Rank 0 against each other rank.
compare::PairsOf against_rank_0(const trace::RunTrace& run) {
  return [&run](Channel) {
    std::vector<compare::Pair> pairs;
    for (std::size_t rank = 1; rank < run.ranks.size(); ++rank)
      pairs.push_back({&run.ranks[0], &run.ranks[rank], static_cast<std::int64_t>(rank)});
    return pairs;
  };
}

/// Statistics of batch normalization: each rank notes those of its own share.
bool is_statistic(const std::string& buffer) {
  return buffer.ends_with("running_mean") || buffer.ends_with("running_var") || buffer.ends_with("num_batches_tracked");
}

/// Buffers of a program that ranks may hold of their own: statistics, and all that are not broadcast, once they move.
bool is_own_buffer(Channel channel, const std::string& name, std::int64_t step, bool are_broadcast) {
  return channel == Channel::kBuffer && (is_statistic(name) || (!are_broadcast && step >= 0));
}

/// The channels that every rank holds the same by design.
std::vector<Channel> agreeing_channels(const scenario::Promises& promises) {
  const bool own_buffers = !promises.known && promises.train.has_own_buffers();
  std::vector<Channel> channels = channels_of({}, {&promises}, true);
  const auto& evaluation = promises.train.evaluation;
  const bool own_metrics = !promises.known && evaluation && evaluation->reduce != recipe::EvaluationReduce::kAll;
  std::erase_if(channels, [&](Channel channel) {
    if (channel == Channel::kMetric && own_metrics) return true;
    return trace::info(channel).sharing != trace::Sharing::kReplicated || (channel == Channel::kBuffer && own_buffers);
  });
  return channels;
}

/// What a rank counts of its own share of the data, and others of theirs.
/// num_items_in_batch: the tokens that a model of transformers is told to divide by.
bool is_own_count(Channel channel, const std::string& name) {
  const bool counts = name == trace::entry::kSamplesTaken || name == "targets" ||
                      name == trace::entry::kLossDenominator || name == "num_items_in_batch";
  return channel == Channel::kLedger && counts;
}

/// LBFGS keeps the loss of its closure, which is each rank's own.
bool is_own_loss_of_optimizer(Channel channel, const std::string& name) {
  return channel == Channel::kOptimizer && name.ends_with(".prev_loss");
}

/// The record of one rank at the place of a divergence, or in another channel there; null where it has none.
const trace::Record* held_by(const trace::RunTrace& run, std::size_t rank, const Divergence& at, Channel channel) {
  return run.ranks[rank].find(at.step, channel, at.tensor);
}

bool same_content(const trace::Record* a, const trace::Record* b) {
  return a == nullptr || b == nullptr ? a == b : !compare::bitwise(*a, *b, 0, 0);
}

/// Whether a rank updates with its own gradient, which the reduction never touched.
bool is_unreduced(const trace::RunTrace& run, std::size_t rank, const Divergence& at) {
  const trace::Record* own = held_by(run, rank, at, Channel::kGradientLocal);
  return at.channel == Channel::kGradient && own != nullptr &&
         same_content(own, held_by(run, rank, at, Channel::kGradient));
}

/// Whether rank 0, which the others were held against, is itself the one that went astray: it alone kept its local
/// gradient, or all others agree against it. At the start rank 0 is right by definition: DDP broadcasts its state.
bool is_rank_0_astray(const trace::RunTrace& run, const Divergence& at) {
  if (at.step == run.ranks[0].steps.front().step) return false;
  const bool kept = is_unreduced(run, 0, at);
  if (kept != is_unreduced(run, static_cast<std::size_t>(at.rank), at)) return kept;
  if (run.world_size() <= 2 || at.rank != 1 || at.tensor.empty()) return false;
  for (std::size_t rank = 2; rank < run.ranks.size(); ++rank) {
    if (!same_content(held_by(run, 1, at, at.channel), held_by(run, rank, at, at.channel))) return false;
  }
  return true;
}

/// Names the rank that went astray and what it should have held.
void name_ranks(const trace::RunTrace& run, Divergence& divergence) {
  std::size_t right = 0;
  if (is_rank_0_astray(run, divergence)) {
    right = static_cast<std::size_t>(divergence.rank);
    divergence.rank = 0;
    std::swap(divergence.left, divergence.right);
    std::swap(divergence.expected, divergence.actual);
    const trace::Record* theirs = held_by(run, right, divergence, divergence.channel);
    const trace::Record* its = held_by(run, 0, divergence, divergence.channel);
    divergence.relation = theirs != nullptr && its != nullptr ? compare::relation_between(*theirs, *its) : "";
  }
  divergence.left.rank = static_cast<std::int64_t>(right);
  divergence.right.rank = divergence.rank;
}

/// Digests of one channel of one rank in one step.
std::vector<trace::Digest> digests_of(const trace::Step& step, Channel channel) {
  std::vector<trace::Digest> digests;
  for (const trace::Record& record : step.records) {
    if (record.channel == channel) digests.push_back(record.digest);
  }
  return digests;
}

/// A record that is NaN or infinite; null where all of the channel are finite.
const trace::Record* lost_in(const trace::Step& step, Channel channel) {
  const auto found = std::find_if(step.records.begin(), step.records.end(), [&](const trace::Record& record) {
    return record.channel == channel && !laws::is_finite(record);
  });
  return found == step.records.end() ? nullptr : &*found;
}

/// First pair of ranks that hold the same in `channel` at one step, or a rank that holds nothing where others do. NaN
/// that equals NaN comes of any numbers, and is no pair.
std::optional<Divergence> first_agreement(const trace::RunTrace& run, std::int64_t step, Channel channel,
                                          compare::Comparison& comparison) {
  std::vector<std::vector<trace::Digest>> held;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* of_rank = rank.find(step);
    held.push_back(of_rank == nullptr ? std::vector<trace::Digest>() : digests_of(*of_rank, channel));
  }
  const bool nobody = std::all_of(held.begin(), held.end(), [](const auto& digests) { return digests.empty(); });
  for (std::size_t rank = 0; rank < held.size() && !nobody; ++rank) {
    Divergence divergence{.step = step,
                          .channel = channel,
                          .rank = static_cast<std::int64_t>(rank),
                          .left = "other ranks",
                          .right = {run.run, static_cast<std::int64_t>(rank)},
                          .class_ = scenario::Class::kSemantic};
    if (held[rank].empty()) {
      divergence.expected = "a record, as on other ranks";
      divergence.actual = "not recorded";
      divergence.cause = "a rank recorded less than the others";
      return divergence;
    }
    for (std::size_t other = 0; other < rank; ++other) {
      ++comparison.compared;
      comparison.channels.insert(channel);
      if (held[other] != held[rank]) continue;
      const trace::Trace& of_rank = run.ranks[rank];
      if (const trace::Record* lost = lost_in(*of_rank.find(step), channel)) {
        if (!comparison.hidden && laws::hides(*lost, *of_rank.find(step), of_rank))
          comparison.hidden = {step, channel, lost->name, static_cast<std::int64_t>(rank)};
        continue;
      }
      divergence.left = "rank " + std::to_string(other);
      divergence.expected = "content that differs from rank " + std::to_string(other);
      divergence.actual = "the same content";
      divergence.cause = "two ranks hold the same; look at the ranks of sampler and seeds, or one shard given twice";
      return divergence;
    }
  }
  return std::nullopt;
}

std::set<std::int64_t> steps_of(const trace::RunTrace& run) {
  std::set<std::int64_t> steps;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) steps.insert(step.step);
  }
  return steps;
}

/// No two ranks of one run hold the same, in any channel of the check.
CheckResult judge_difference(const trace::RunTrace& run, const CheckInput& input) {
  compare::Comparison comparison{.sides = run.run};
  for (const std::int64_t step : steps_of(run)) {
    for (const Channel channel : channels_of(input, run)) {
      if (!comparison.first) comparison.first = first_agreement(run, step, channel, comparison);
    }
  }
  return result_of(comparison, input);
}

}  // namespace

std::optional<Divergence> ranks_apart(const trace::RunTrace& run, std::vector<Channel> channels) {
  std::erase_if(channels, [](Channel channel) {
    const trace::ChannelInfo& traits = trace::info(channel);
    return traits.sharing != trace::Sharing::kReplicated || !traits.can_round() || channel == Channel::kBuffer;
  });
  // A rank may leave to another what needs to be recorded, or kept, only once.
  const auto some_lack = [&run](Channel channel, const std::string& name, std::int64_t step) {
    return std::any_of(run.ranks.begin(), run.ranks.end(),
                       [&](const trace::Trace& rank) { return rank.find(step, channel, name) == nullptr; });
  };
  const compare::RoundingBound bound(run, run);
  auto first = compare::compare({.pairs = against_rank_0(run),
                                 .channels = channels,
                                 .relation = compare::within(bound),
                                 .common_steps_only = true,
                                 .skip = some_lack,
                                 .left_name = run.run,
                                 .right_name = run.run})
                   .first;
  if (first) name_ranks(run, *first);
  return first;
}

compare::Comparison compare_ranks(const trace::RunTrace& run, const scenario::Promises& promises,
                                  const std::vector<Channel>& channels, std::int64_t end_step,
                                  const compare::Watch& watch) {
  compare::Walk walk{.pairs = against_rank_0(run),
                     .channels = channels_of(channels, {&promises}, true),
                     .relation = compare::bitwise,
                     .end_step = end_step,
                     .common_steps_only = !run.torn().empty(),
                     .left_name = run.run,
                     .right_name = run.run,
                     .watch = watch};
  if (channels.empty()) walk.channels = agreeing_channels(promises);
  const bool all = channels.empty(), is_program = promises.known.has_value();
  walk.skip = [all, is_program, broadcast = laws::ddp_has(run, "broadcast_buffers")](
                  Channel channel, const std::string& name, std::int64_t step) {
    return is_own_loss_of_optimizer(channel, name) || (all && is_own_count(channel, name)) ||
           (is_program && is_own_buffer(channel, name, step, broadcast));
  };
  compare::Comparison comparison = compare::compare(walk);
  if (comparison.first) name_ranks(run, *comparison.first);
  return comparison;
}

CheckResult check_ranks_agree(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const run : input.of(variant)) {
      if (run->world_size() < 2) continue;
      combine(total, result_of(compare_ranks(*run, input.promises_of(*run), input.spec.channels), input));
    }
  }
  return concluded(std::move(total));
}

CheckResult check_ranks_differ(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(variant)) {
      if (repeat->world_size() > 1) combine(total, judge_difference(*repeat, input));
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
