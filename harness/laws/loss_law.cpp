#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/scales.h"
#include "harness/recipe/rounded.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// Autocast rounds so many times as coarsely as float32, where the two can be told apart.
constexpr double kClearlyCoarser = 100;

/// So many losses are not as exact by chance: each is once in a hundred times.
constexpr std::size_t kFewLosses = 4;

/// What the ranks lost in all micro-batches of a step.
struct Losses {
  double sum = 0, magnitude = 0;
  std::size_t terms = 0;
  std::optional<RecordPlace> hidden;
};

/// Nothing where a rank lacks the step.
std::optional<Losses> losses_at(const trace::RunTrace& run, std::int64_t step) {
  Losses losses;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* of_rank = rank.find(step);
    if (of_rank == nullptr) return std::nullopt;
    for (const trace::Record& record : of_rank->records) {
      if (!is_own_loss(record) || !record.number) continue;
      if (!losses.hidden && hides(record, *of_rank, rank))
        losses.hidden = {.step = step, .channel = record.channel, .tensor = record.name, .rank = rank.rank};
      losses.sum += *record.number;
      losses.magnitude += std::fabs(*record.number);
      ++losses.terms;
    }
  }
  return losses;
}

/// The number that the worker computed for a rank's own loss: "seen.loss.1". Null if it computed none.
const trace::Record* computed_for(const trace::Record& local, const trace::Step& step, const char* what) {
  const trace::Record* found = step.find(Channel::kLedger, what + local.name.substr(std::string_view("local").size()));
  return found == nullptr || !found->number ? nullptr : found;
}

/// A rank's losses against those by their definition, in a step in which the worker computes these.
void judge_own_losses(Outcome& outcome, const trace::Trace& rank, const trace::Step& step) {
  for (const trace::Record& local : step.records) {
    if (!is_own_loss(local) || !local.number) continue;
    const trace::Record *expected = computed_for(local, step, "seen.loss"),
                        *rounding = computed_for(local, step, "seen.loss_rounding");
    if (expected == nullptr || rounding == nullptr) continue;
    // A log-softmax rounds as a number of at least 1 does: it adds exp(0) up.
    const double unit = roundoff_of(local.dtype).value_or(trace::unit_roundoff(local.dtype));
    const double bound = kOfCopy * (*rounding->number + unit * (1 + std::fabs(*expected->number)));
    if (!std::isfinite(*local.number) || !std::isfinite(*expected->number) || !std::isfinite(bound)) continue;
    ++outcome.judged;
    if (std::fabs(*local.number - *expected->number) <= bound || outcome.broken) continue;
    outcome.broken = Breach{.at = {step.step, Channel::kLoss, local.name, rank.rank},
                            .expected = to_decimal(*expected->number) + ", the loss by its definition",
                            .actual = to_decimal(*local.number) + "; rounding explains " + rounded(bound, 3)};
  }
}

/// Losses that are nearer to float64 than the recipe's autocast can be, in every step in which the worker computes
/// both: it is off.
std::optional<Breach> lacks_autocast(const trace::RunTrace& run, const recipe::TrainSpec& train) {
  if (train.autocast == recipe::Autocast::kNone || train.precision != recipe::Precision::kFloat32) return std::nullopt;
  std::size_t told = 0;
  std::optional<Breach> first;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      for (const trace::Record& local : step.records) {
        if (!is_own_loss(local) || !local.number) continue;
        const trace::Record *exact = computed_for(local, step, "seen.loss"),
                            *rounding = computed_for(local, step, "seen.loss_rounding");
        if (exact == nullptr || rounding == nullptr) continue;
        const double bound = kOfCopy * trace::unit_roundoff(trace::DType::kFloat32) * (1 + std::fabs(*exact->number));
        if (!(*rounding->number > kClearlyCoarser * bound)) continue;
        if (!(std::fabs(*local.number - *exact->number) <= bound)) return std::nullopt;
        ++told;
        if (first) continue;
        first =
            Breach{.at = {step.step, Channel::kLoss, local.name, rank.rank},
                   .expected = "the rounding of autocast to " + text_of(train.autocast) + ", about " +
                               rounded(*rounding->number, 3),
                   .actual = "the loss in float64, but for " + rounded(std::fabs(*local.number - *exact->number), 3)};
      }
    }
  }
  if (told < kFewLosses) return std::nullopt;
  first->cause = "fp.precision_mode";
  first->evidence = std::to_string(told) + " losses are as near to float64 as float32 is: autocast is off";
  return first;
}

/// The one factor between all losses and those by their definition; nothing where it is not one.
std::optional<double> factor_of(const trace::RunTrace& run) {
  std::optional<double> factor;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      for (const trace::Record& local : step.records) {
        if (!is_own_loss(local) || !local.number) continue;
        const trace::Record* expected = computed_for(local, step, "seen.loss");
        if (expected == nullptr || *expected->number == 0) continue;
        const double its = *local.number / *expected->number;
        if (factor && !(std::fabs(its - *factor) <= kFits * std::fabs(*factor))) return std::nullopt;
        factor = its;
      }
    }
  }
  return factor;
}

void name_cause(Breach& breach, const trace::RunTrace& run, const scenario::Promises& promises) {
  const auto factor = factor_of(run);
  if (!factor) return;
  const auto is = [&](double value) { return value != 1 && std::fabs(*factor - value) <= kFits * value; };
  const bool of_ranks = promises.train.loss_average != recipe::LossAverage::kWorld &&
                        is(static_cast<double>(run.world_size())),
             of_micro_batches = is(static_cast<double>(promises.train.batch.accumulation));
  breach.relation = breach.evidence = "all losses are " + rounded(*factor, 5) +
                                      " times those by their definition, with " + std::to_string(run.world_size()) +
                                      " ranks and " + std::to_string(promises.train.batch.accumulation) +
                                      " micro-batches";
  if (of_ranks != of_micro_batches) breach.cause = of_ranks ? "loss.world_scale" : "grad.accum_scale";
}

}  // namespace

Outcome judge_reduced_loss(const trace::RunTrace& run, std::int64_t step) {
  Outcome outcome;
  const auto losses = losses_at(run, step);
  if (!losses || losses->terms == 0) return outcome;
  outcome.hidden = losses->hidden;
  const auto ranks = static_cast<double>(run.world_size());
  const double mean = losses->sum / ranks;
  const double rounding = (static_cast<double>(losses->terms) + 2) * 2 * trace::unit_roundoff(trace::DType::kFloat32) *
                          losses->magnitude / ranks;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Record* reduced = rank.find(step, Channel::kLoss, trace::entry::kReduced);
    if (reduced == nullptr || !reduced->number) continue;
    // Losses that are finite each may overflow in float32 when they are added up.
    if (!std::isfinite(static_cast<float>(losses->magnitude)) && !std::isfinite(*reduced->number)) continue;
    ++outcome.judged;
    if (std::fabs(*reduced->number - mean) <= rounding) continue;
    outcome.broken = Breach{.at = {step, Channel::kLoss, trace::entry::kReduced, rank.rank},
                            .expected = to_decimal(mean) + ", the mean of the ranks' losses",
                            .actual = to_decimal(*reduced->number)};
    return outcome;
  }
  return outcome;
}

Outcome judge_loss(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("how this program reduces its losses is not promised");
  Outcome outcome;
  const std::optional<Breach> in_float32 = lacks_autocast(run, promises.train);
  for (const trace::Step& step : run.ranks[0].steps) {
    Outcome one;
    for (const trace::Trace& rank : run.ranks) {
      if (const trace::Step* of_rank = rank.find(step.step)) judge_own_losses(one, rank, *of_rank);
    }
    if (!one.broken && in_float32 && in_float32->at.step == step.step) {
      one.broken = in_float32;
    } else if (one.broken) {
      name_cause(*one.broken, run, promises);
    } else {
      Outcome reduced = judge_reduced_loss(run, step.step);
      reduced.judged += one.judged;
      one = std::move(reduced);
    }
    outcome.judged += one.judged;
    if (!outcome.hidden) outcome.hidden = one.hidden;
    if (!one.broken) continue;
    outcome.broken = std::move(one.broken);
    return outcome;
  }
  return outcome;
}

}  // namespace lockstep::laws
