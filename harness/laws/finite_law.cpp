#include <algorithm>
#include <cmath>

#include "harness/laws/law.h"

namespace lockstep::laws {
namespace {

using trace::Part;

/// A step that keeps its weights to itself does not tell whether its update was skipped.
bool is_judged(const trace::Record& record, bool has_weights) {
  if (!record.max_abs && !record.norm && !record.number) return false;
  const Part part = trace::info(record.channel).part;
  return part == Part::kUpdated || part == Part::kFollowing || (part == Part::kComputed && has_weights);
}

Outcome judge_step(const trace::Step& step, const trace::Trace& rank) {
  Outcome outcome;
  const bool has_weights = std::any_of(step.records.begin(), step.records.end(), [](const trace::Record& record) {
    return record.channel == trace::Channel::kWeight;
  });
  for (const trace::Record& record : step.records) {
    const bool is_metric = record.channel == trace::Channel::kMetric && record.number;
    if (!is_metric && !is_judged(record, has_weights)) continue;
    ++outcome.judged;
    if (is_metric ? std::isfinite(*record.number) : !hides(record, step, rank)) continue;
    outcome.broken = Breach{.at = {step.step, record.channel, record.name, rank.rank},
                            .expected = "finite numbers",
                            .actual = "NaN or infinity"};
    return outcome;
  }
  return outcome;
}

}  // namespace

std::string no_finite_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  return promises.train.may_be_nan ? "the recipe may diverge" : "";
}

Outcome judge_finite(const trace::RunTrace& run, const scenario::Promises&) {
  Outcome outcome;
  for (const trace::Step& step : run.ranks[0].steps) {
    for (const trace::Trace& rank : run.ranks) {
      const trace::Step* of_rank = rank.find(step.step);
      if (of_rank == nullptr) continue;
      Outcome one = judge_step(*of_rank, rank);
      outcome.judged += one.judged;
      if (!one.broken) continue;
      outcome.broken = std::move(one.broken);
      return outcome;
    }
  }
  return outcome;
}

}  // namespace lockstep::laws
