#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/samples_causes.h"
#include "harness/laws/held.h"
#include "harness/laws/own_gradients.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using laws::Made;
using laws::OwnGradients;
using trace::Channel;

using Numbers = std::vector<double>;

/// Sides that agree are nearer than this, sides that do not are not.
constexpr double kAgree = 1e-4;

/// Losses are one number that is read, not a sum of many: nearer than this they are the same.
constexpr double kSameLoss = kAgree / 10;

/// Roundings of float32 in a count that is told from losses, and the most with which it can be told from the next one.
constexpr double kLossRounding = 4e-7, kCanCount = 0.1;

/// Counts that a verdict lists.
constexpr std::size_t kShownCounts = 8;

bool unequal(const Numbers& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end();
}

double sum(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

/// Shares of the whole; nothing where a count is missing.
std::optional<Numbers> shares_of(Numbers counts) {
  const double all = sum(counts);
  if (!(all > 0) || counts.empty()) return std::nullopt;
  for (double& count : counts) count /= all;
  return counts;
}

/// What the ledger counts of each rank in a step, or its samples.
Numbers counts_of(const OwnGradients& own, bool targets) {
  Numbers counts;
  for (const Held& held : own.held()) {
    const trace::Record* record =
        targets ? held.find(Channel::kLedger, "targets") : held.find(Channel::kSamples, "ids");
    if (record == nullptr) return {};
    if (targets && record->integers.size() == 1) counts.push_back(static_cast<double>(record->integers[0]));
    if (!targets && record->shape.size() == 1) counts.push_back(static_cast<double>(record->shape[0]));
  }
  return counts.size() == own.ranks() ? counts : Numbers{};
}

std::string listed_counts(const Numbers& counts) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(counts.size(), kShownCounts); ++i) texts.push_back(to_decimal(counts[i]));
  return join(texts, ", ") + (counts.size() > kShownCounts ? ", ..." : "");
}

/// Both sides of a step, and what each side's ranks count.
struct Weighing {
  const Scene& scene;
  OwnGradients left, right;

  std::string place() const { return "step " + std::to_string(scene.at.step); }
  bool weigh_differently() const {
    return scene.left.promises->train.loss_average != scene.right.promises->train.loss_average;
  }
};

/// The sides' means over their ranks differ; weighed by counts, one of them or both, they agree.
std::optional<Suspect> of_ranks(const Weighing& at, bool targets, const char* cause) {
  const Numbers theirs = counts_of(at.left, targets), its = counts_of(at.right, targets);
  const Made plain_left = at.left.mean(), plain_right = at.right.mean();
  const double before = laws::apart(plain_right, plain_left);
  if (!(before > kAgree)) return std::nullopt;
  const auto left = unequal(theirs) ? shares_of(theirs) : std::nullopt;
  const auto right = unequal(its) ? shares_of(its) : std::nullopt;
  const Made weighed_left = left ? at.left.weighted(*left) : plain_left;
  const Made weighed_right = right ? at.right.weighted(*right) : plain_right;
  const auto accused = [&](const Side& side, const Numbers& counts, double after) {
    const std::string what = targets ? "targets" : "samples";
    return Suspect{cause,
                   {at.place() + ": the ranks of " + side.run->run + " have " + listed_counts(counts) + " " + what,
                    "the means of the ranks' own gradients are " + rounded(before, 3) + " apart; where each rank of " +
                        side.run->run + " is weighted by its " + what + ", " + rounded(after, 3)}};
  };
  if (const double after = laws::apart(weighed_right, plain_left); right && after < kAgree)
    return accused(at.scene.right, its, after);
  if (const double after = laws::apart(plain_right, weighed_left); left && after < kAgree)
    return accused(at.scene.left, theirs, after);
  if (const double after = laws::apart(weighed_right, weighed_left); left && right && after < kAgree)
    return accused(at.scene.right, its, after);
  return std::nullopt;
}

/// What a program told its model to divide each rank's loss by; empty where it did not.
Numbers denominators_of(const OwnGradients& own) {
  Numbers denominators;
  for (const Held& held : own.held())
    denominators.push_back(laws::number_at(held, Channel::kLedger, "num_items_in_batch"));
  const bool all = std::all_of(denominators.begin(), denominators.end(), [](double number) { return number > 0; });
  return all ? denominators : Numbers{};
}

/// Sum of each rank's own losses in the step.
Numbers losses_of(const OwnGradients& own) {
  Numbers losses;
  for (const Held& held : own.held()) {
    losses.push_back(0);
    for (const trace::Record* record : held.all(Channel::kLoss))
      losses.back() += laws::is_own_loss(*record) ? record->number.value_or(NAN) : 0;
  }
  return losses;
}

/// `its` ranks divide by targets of their own, those of `theirs` by the mean over the ranks; the losses show both.
std::optional<Suspect> of_denominators(const Weighing& at, const Side& side, const OwnGradients& its,
                                       const OwnGradients& theirs) {
  const Numbers own = denominators_of(its), all = denominators_of(theirs);
  if (own.size() < 2 || own.size() != all.size() || !unequal(own) || unequal(all) || sum(own) != all[0])
    return std::nullopt;
  const Numbers losses = losses_of(its), other_losses = losses_of(theirs);
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const double mean = all[rank] / static_cast<double>(all.size());
    if (!(std::fabs(losses[rank] * own[rank] - other_losses[rank] * mean) <=
          kAgree * std::fabs(losses[rank] * own[rank])))
      return std::nullopt;
  }
  return Suspect{"loss.token_weighting_rank",
                 {at.place() + ": the ranks of " + side.run->run + " divide their losses by their own " +
                      listed_counts(own) + " targets (num_items_in_batch)",
                  "the ranks of the other side divide theirs by the mean of these, " +
                      to_decimal(all[0] / static_cast<double>(all.size()))}};
}

/// The micro-batches of all ranks in one step: mean losses and samples.
struct Pieces {
  Numbers losses, samples;
  double targets = 0;    ///< of all ranks; 0: not counted
  double reduced = 0;    ///< loss of the step
  std::size_t each = 0;  ///< micro-batches of a rank
};

std::optional<Pieces> pieces_of(const OwnGradients& own) {
  Pieces pieces;
  for (const Held& held : own.held()) {
    std::vector<std::string> names;
    for (const trace::Record* record : held.all(Channel::kLoss)) {
      if (laws::is_own_loss(*record) && record->number) names.push_back(record->name);
    }
    for (const std::string& name : names) {
      const trace::Record* input = held.find(Channel::kInput, "x" + name.substr(5));
      // Each was divided by their number, so that they add up to a mean.
      pieces.losses.push_back(laws::number_at(held, Channel::kLoss, name) * static_cast<double>(names.size()));
      pieces.samples.push_back(input == nullptr || input->shape.empty() ? 0 : static_cast<double>(input->shape[0]));
    }
    pieces.each = std::max(pieces.each, names.size());
  }
  if (pieces.losses.empty()) return std::nullopt;
  const double pieces_count = static_cast<double>(pieces.losses.size());
  pieces.reduced = sum(pieces.losses) / pieces_count;
  pieces.targets = sum(counts_of(own, true));
  return pieces;
}

double weighed(const Pieces& pieces) {
  const auto shares = shares_of(pieces.samples);
  if (!shares) return pieces.reduced;
  return std::inner_product(shares->begin(), shares->end(), pieces.losses.begin(), 0.0);
}

bool same_loss(double a, double b) { return std::fabs(a - b) <= kSameLoss * std::max(std::fabs(a), std::fabs(b)); }

/// Short micro-batches whose losses count as much as full ones.
std::optional<Suspect> of_micro_batches(const Weighing& at, const Side& side, const Pieces& its, const Pieces& theirs) {
  if (its.each < 2 || !unequal(its.samples) || same_loss(its.reduced, theirs.reduced)) return std::nullopt;
  if (!same_loss(weighed(its), theirs.reduced) && !same_loss(weighed(its), weighed(theirs))) return std::nullopt;
  return Suspect{
      "loss.unweighted_partial",
      {at.place() + ": the micro-batches of " + side.run->run + " have " + listed_counts(its.samples) + " samples",
       "their mean losses average to " + rounded(its.reduced, 6) + ", weighted by samples to " +
           rounded(weighed(its), 6) + "; the other side has " + rounded(theirs.reduced, 6)}};
}

/// Targets of two micro-batches that make the other side's loss: whole numbers, if that is what happened.
std::optional<double> targets_of_first(const Pieces& its, double truth) {
  if (its.losses.size() != 2 || its.targets <= 0 || its.losses[0] == its.losses[1]) return std::nullopt;
  const double first = its.targets * (truth - its.losses[1]) / (its.losses[0] - its.losses[1]);
  const double rounding = kLossRounding * its.targets * std::fabs(truth / (its.losses[0] - its.losses[1]));
  if (rounding > kCanCount || std::fabs(first - std::round(first)) > std::max(rounding, kWholeCount))
    return std::nullopt;
  return first > 0.5 && first < its.targets - 0.5 ? std::optional(std::round(first)) : std::nullopt;
}

/// Whether losses depend on the way a batch is cut: by statistics of the batch, or by masks that are drawn.
bool depends_on_cut(const Side& side, std::int64_t step) {
  const Held now(*side.run, side.rank, step), before(*side.run, side.rank, step - 1);
  const trace::Record *drawn = now.find(Channel::kRng, "cpu"), *undrawn = before.find(Channel::kRng, "cpu");
  const bool draws = drawn == nullptr || undrawn == nullptr || drawn->digest != undrawn->digest;
  return draws || !now.all(Channel::kBuffer).empty();
}

/// Micro-batches of as many samples, whose targets are unequally many: the ledger counts them for each rank only.
std::optional<Suspect> of_tokens(const Weighing& at, const Side& side, const Pieces& its, const Pieces& theirs) {
  if (its.each < 2 || its.targets <= 0 || same_loss(its.reduced, theirs.reduced)) return std::nullopt;
  const auto [least, most] = std::minmax_element(its.losses.begin(), its.losses.end());
  // A mean over all targets is between the means of the parts.
  if (theirs.reduced < *least || theirs.reduced > *most) return std::nullopt;
  Suspect suspect{"loss.token_weighting",
                  {at.place() + ": " + side.run->run + " averages " + std::to_string(its.losses.size()) +
                   " micro-batches' losses (" + rounded(*least, 5) + " to " + rounded(*most, 5) + ") to " +
                   rounded(its.reduced, 6) + "; the other side has " + rounded(theirs.reduced, 6) + " for the same " +
                   to_decimal(its.targets) + " targets"}};
  if (const auto first = targets_of_first(its, theirs.reduced)) {
    if (*first * 2 == its.targets) return std::nullopt;
    suspect.evidence.push_back("that is their mean if the first counts " + to_decimal(*first) + " targets");
  } else if (its.losses.size() == 2 || depends_on_cut(side, at.scene.at.step) ||
             (its.losses.size() == theirs.losses.size() && !at.weigh_differently())) {
    return std::nullopt;  // of more, nothing but another cut or another mean says so
  }
  return suspect;
}

/// Whether targets come in unequal numbers at all: samples of one length weigh alike in every batch.
bool targets_vary(const OwnGradients& own) {
  const Numbers targets = counts_of(own, true), samples = counts_of(own, false);
  if (targets.empty() || samples.empty()) return false;
  for (std::size_t rank = 0; rank < targets.size(); ++rank) {
    if (std::fabs(std::remainder(targets[rank], samples[rank])) > 0) return true;
    if (targets[rank] * samples[0] != targets[0] * samples[rank]) return true;
  }
  return false;
}

}  // namespace

std::vector<Suspect> suspects_in_loss_weighting(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  const Weighing at{scene, {*scene.left.run, scene.at.step}, {*scene.right.run, scene.at.step}};
  if (const auto found = of_denominators(at, scene.right, at.right, at.left)) return {*found};
  if (const auto found = of_denominators(at, scene.left, at.left, at.right)) return {*found};
  if (!at.left.complete() || !at.right.complete()) return {};
  if (const auto found = of_ranks(at, false, "loss.unweighted_partial")) return {*found};
  if (const auto found = of_ranks(at, true, "loss.token_weighting_rank")) return {*found};
  const auto theirs = pieces_of(at.left), its = pieces_of(at.right);
  if (!theirs || !its) return {};
  if (const auto found = of_micro_batches(at, scene.right, *its, *theirs)) return {*found};
  if (const auto found = of_micro_batches(at, scene.left, *theirs, *its)) return {*found};
  if (!targets_vary(at.left) && !targets_vary(at.right)) return {};
  if (const auto found = of_tokens(at, scene.right, *its, *theirs)) return {*found};
  if (const auto found = of_tokens(at, scene.left, *theirs, *its)) return {*found};
  return {};
}

}  // namespace lockstep::diagnosis
