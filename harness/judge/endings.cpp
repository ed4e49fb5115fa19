#include "harness/judge/endings.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "harness/base/text.h"
#include "harness/judge/launch_failure.h"
#include "harness/launch/outcome.h"
#include "harness/launch/worker_exit.h"

namespace lockstep::judge {
namespace {

using compare::Suspect;
using launch::Phase;
using launch::Progress;
using launch::RankExit;
using launch::RunOutcome;

std::string name_of_rank(std::size_t rank) { return "rank " + std::to_string(rank); }

std::string nth(std::uint64_t number) { return "collective number " + std::to_string(number); }

/// Whether the ranks ended, or were ended, by something that they did.
bool is_failure(const RunOutcome& outcome) {
  return outcome.status == RunOutcome::Status::kFailed || outcome.status == RunOutcome::Status::kHung;
}

/// The rank that is to blame; nothing where it is not known.
const RankExit* culprit_of(const RunOutcome& outcome) {
  const bool known = outcome.culprit && static_cast<std::size_t>(*outcome.culprit) < outcome.ranks.size();
  return known ? &outcome.ranks[static_cast<std::size_t>(*outcome.culprit)] : nullptr;
}

/// Whether a rank was lost for want of memory or the like: whether the training or the machine is to blame is open.
bool ran_out_in_training(const RunOutcome& outcome) {
  const RankExit* culprit = culprit_of(outcome);
  return outcome.status == RunOutcome::Status::kResource && culprit != nullptr && culprit->progress.step >= 0;
}

/// A file of a checkpoint that a rank could not take.
std::vector<Suspect> suspects_in_checkpoint(const RunOutcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const auto& failure = outcome.ranks[rank].failure;
    if (!failure) continue;
    const std::string seen = name_of_rank(rank) + ": " + failure->what + ", " + failure->where;
    std::error_code unknown;
    const bool came_later = failure->missing && std::filesystem::exists(failure->where, unknown);
    if (!came_later && !failure->damaged) continue;
    if (!came_later) return {{"ckpt.truncated", {seen}}};
    return {
        {"ckpt.race",
         {seen, "the file was missing when " + name_of_rank(rank) + " looked, and exists now: it was written later"}}};
  }
  return {};
}

/// What ended a launch, where the process that failed first says so itself. After a first step it is no launch.
std::optional<LaunchFailure> launch_failure_of(const RunOutcome& outcome) {
  const bool began = std::any_of(outcome.ranks.begin(), outcome.ranks.end(),
                                 [](const RankExit& rank) { return rank.progress.step >= 0; });
  if (outcome.status != RunOutcome::Status::kFailed || began) return std::nullopt;
  std::vector<ToldFailure> told;
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    if (const auto& failure = outcome.ranks[rank].failure)
      told.push_back({.rank = static_cast<std::int64_t>(rank), .failure = *failure});
  }
  if (outcome.command_failure) told.push_back({.rank = std::nullopt, .failure = *outcome.command_failure});
  return find_launch_failure(told);
}

std::vector<Suspect> suspects_in_launch(const RunOutcome& outcome) {
  const auto failure = launch_failure_of(outcome);
  if (!failure) return {};
  return {failure->suspect};
}

/// The collective that a rank issued as its `count`th; empty where that is not one of its last two.
std::string name_at(const Progress& progress, std::uint64_t count) {
  if (count == progress.collectives) return progress.collective;
  return count + 1 == progress.collectives ? progress.previous : "";
}

/// A rank that was done while others had steps to take.
std::vector<Suspect> suspects_in_lengths(const RunOutcome& outcome) {
  for (std::size_t early = 0; early < outcome.ranks.size(); ++early) {
    for (std::size_t late = 0; late < outcome.ranks.size(); ++late) {
      const Progress &done = outcome.ranks[early].progress, &waiting = outcome.ranks[late].progress;
      if (!launch::done_before(done, waiting)) continue;
      const std::string seen = name_of_rank(early) + " was done " + launch::place_of(done) + ", " + name_of_rank(late) +
                               " waits " + launch::place_of(waiting);
      return {{"data.uneven_inputs", {seen}}, {"control.local_metric", {seen, "one rank stops early"}}};
    }
  }
  return {};
}

/// Ranks that are not in the same collective, although each has issued as many; or one that waits in a collective which
/// the others, long done or in a later step, never issued.
std::vector<Suspect> suspects_in_collectives(const RunOutcome& outcome) {
  const auto said = [&](std::size_t rank) {
    const Progress& progress = outcome.ranks[rank].progress;
    return name_of_rank(rank) + ": " + nth(progress.collectives) + " is " + progress.collective;
  };
  for (std::size_t a = 0; a < outcome.ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < outcome.ranks.size(); ++b) {
      const Progress &left = outcome.ranks[a].progress, &right = outcome.ranks[b].progress;
      const std::uint64_t both = std::min(left.collectives, right.collectives);
      const std::string its = name_at(left, both), theirs = name_at(right, both);
      if (its.empty() || theirs.empty() || its == theirs) continue;
      return {
          {"control.rank_branch",
           {name_of_rank(a) + ": " + nth(both) + " is " + its, name_of_rank(b) + ": " + nth(both) + " is " + theirs}}};
    }
  }
  for (std::size_t waiting = 0; waiting < outcome.ranks.size(); ++waiting) {
    const Progress& own = outcome.ranks[waiting].progress;
    if (own.phase == Phase::kDone) continue;
    for (std::size_t done = 0; done < outcome.ranks.size(); ++done) {
      const Progress& other = outcome.ranks[done].progress;
      if (outcome.status == RunOutcome::Status::kHung && other.phase != Phase::kDone && other.step > own.step &&
          other.before_step < own.collectives)
        return {{"control.rank_branch",
                 {said(waiting) + ", of step " + std::to_string(own.step), name_of_rank(done) + " continued to step " +
                                                                               std::to_string(other.step) + " after " +
                                                                               nth(other.before_step)}}};
      if (other.phase != Phase::kDone || other.collectives >= own.collectives) continue;
      return {
          {"control.rank_branch", {said(waiting), name_of_rank(done) + " was done after " + nth(other.collectives)}}};
    }
  }
  return {};
}

std::vector<Suspect> suspects_in_ranks(const RunOutcome& outcome) {
  const RankExit* culprit = culprit_of(outcome);
  if (culprit == nullptr) return {};
  // Ranks that all fail by themselves have lost no peer.
  const bool all = std::all_of(outcome.ranks.begin(), outcome.ranks.end(), [](const RankExit& rank) {
    const bool alone = rank.how == RankExit::How::kExited && rank.code != 0;
    return alone && rank.code != static_cast<int>(launch::WorkerExit::kPeerLost);
  });
  if (all && outcome.ranks.size() > 1) return {};
  const bool stuck = outcome.status == RunOutcome::Status::kHung && culprit->how == RankExit::How::kEnded;
  return {{stuck ? "proc.rank_stuck" : "proc.rank_lost", {outcome.why}}};
}

/// The one rank that is in another collective than two or more others, which are in one. It may be past the place where
/// the others wait, and the first to fail is any of them. Where some are far past it, the rank must wait in it: these
/// were with the others, who let them through.
std::optional<std::int64_t> odd_one_out(const RunOutcome& outcome, const std::vector<Suspect>& suspects) {
  if (suspects.empty() || suspects[0].cause != "control.rank_branch") return std::nullopt;
  std::uint64_t all = UINT64_MAX;
  for (const RankExit& rank : outcome.ranks) all = std::min(all, rank.progress.collectives);
  std::map<std::string, std::vector<std::int64_t>> by_name;
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank)
    by_name[name_at(outcome.ranks[rank].progress, all)].push_back(static_cast<std::int64_t>(rank));
  const bool some_are_far = by_name.erase("") > 0;
  if (by_name.size() != 2) return std::nullopt;
  auto one = by_name.begin()->second, others = by_name.rbegin()->second;
  if (one.size() > others.size()) std::swap(one, others);
  if (one.size() != 1 || others.size() == 1) return std::nullopt;
  const bool waits = outcome.ranks[static_cast<std::size_t>(one[0])].progress.collectives == all;
  return waits || !some_are_far ? std::optional(one[0]) : std::nullopt;
}

/// Where a run came to grief: with the rank that is to blame, else with the one that had come least far.
compare::Divergence divergence_of(const RunOutcome& outcome, std::vector<Suspect> suspects) {
  const auto least =
      std::min_element(outcome.ranks.begin(), outcome.ranks.end(), [](const RankExit& a, const RankExit& b) {
        return std::pair(a.progress.step, a.progress.phase) < std::pair(b.progress.step, b.progress.phase);
      });
  const auto odd = odd_one_out(outcome, suspects);
  const auto launch = launch_failure_of(outcome);
  const std::int64_t rank = odd                      ? *odd
                            : launch && launch->rank ? *launch->rank
                                                     : outcome.culprit.value_or(least - outcome.ranks.begin());
  const Progress& progress = odd ? least->progress : outcome.ranks[static_cast<std::size_t>(rank)].progress;
  const bool missed_the_next = progress.phase == Phase::kDone;
  return {.step = progress.step + (missed_the_next ? 1 : 0),
          .rank = rank,
          .phase = std::string(launch::name_of(progress.phase)),
          .left = outcome.run,
          .right = outcome.run,
          .expected = "a training to its end",
          .actual = std::string(launch::name_of(outcome.status)),
          .class_ = scenario::Class::kLiveness,
          .cause = outcome.why,
          .suspects = std::move(suspects)};
}

}  // namespace

std::vector<Suspect> suspects_in_ending(const RunOutcome& outcome) {
  std::vector<Suspect> suspects = suspects_in_checkpoint(outcome);
  if (suspects.empty()) suspects = suspects_in_launch(outcome);
  if (suspects.empty() && is_failure(outcome)) suspects = suspects_in_lengths(outcome);
  if (suspects.empty() && is_failure(outcome)) suspects = suspects_in_collectives(outcome);
  if (suspects.empty() && (is_failure(outcome) || ran_out_in_training(outcome))) suspects = suspects_in_ranks(outcome);
  return suspects;
}

std::optional<std::int64_t> rank_to_blame(const RunOutcome& outcome, const std::vector<Suspect>& suspects) {
  if (const auto odd = odd_one_out(outcome, suspects)) return odd;
  const auto launch = launch_failure_of(outcome);
  return launch && launch->rank ? launch->rank : outcome.culprit;
}

checks::Ending ending_of(const RunOutcome& outcome, const std::string& problem) {
  checks::Ending ending{.run = outcome.run, .failure = std::nullopt, .undecided = problem};
  if (outcome.status == RunOutcome::Status::kFinished) return ending;
  // Who refuses a checkpoint that a training of the scenario saved, fails by the fault of that training.
  const bool is_own_doing = is_failure(outcome) || !suspects_in_checkpoint(outcome).empty();
  if (!outcome.ranks.empty() && is_own_doing) {
    ending.failure = divergence_of(outcome, suspects_in_ending(outcome));
  } else {
    ending.undecided = std::string(launch::name_of(outcome.status)) + ": " + outcome.why;
  }
  return ending;
}

}  // namespace lockstep::judge
