#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/law.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

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
      if (record.channel != Channel::kLoss || !record.name.starts_with("local") || !record.number) continue;
      if (!losses.hidden && hides(record, *of_rank, rank))
        losses.hidden = {.step = step, .channel = record.channel, .tensor = record.name, .rank = rank.rank};
      losses.sum += *record.number;
      losses.magnitude += std::fabs(*record.number);
      ++losses.terms;
    }
  }
  return losses;
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
    const trace::Record* reduced = rank.find(step, Channel::kLoss, "reduced");
    if (reduced == nullptr || !reduced->number) continue;
    if (!std::isfinite(mean) && !std::isfinite(*reduced->number)) continue;
    ++outcome.judged;
    if (std::fabs(*reduced->number - mean) <= rounding) continue;
    outcome.broken = Breach{.at = {step, Channel::kLoss, "reduced", rank.rank},
                            .expected = to_decimal(mean) + ", the mean of the ranks' losses",
                            .actual = to_decimal(*reduced->number)};
    return outcome;
  }
  return outcome;
}

Outcome judge_loss(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("nobody promises how this program reduces its losses");
  Outcome outcome;
  for (const trace::Step& step : run.ranks[0].steps) {
    Outcome one = judge_reduced_loss(run, step.step);
    outcome.judged += one.judged;
    if (!outcome.hidden) outcome.hidden = one.hidden;
    if (!one.broken) continue;
    outcome.broken = std::move(one.broken);
    return outcome;
  }
  return outcome;
}

}  // namespace lockstep::laws
