#include "harness/app/cost.h"

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

/// *Shape*: `sorted` has one value or more; `share` is in [0, 1].
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

/// Decides on the ratio of rounds that are valid.
void decide(Cost& cost, double at_most) {
  const std::string limit = to_decimal(at_most);
  if (cost.ratio->upper <= at_most) {
    cost.why = "at most " + limit;
  } else if (cost.ratio->lower > at_most) {
    cost.status = judge::Status::kDivergence;
    cost.why = "more than " + limit;
  } else {
    cost.status = judge::Status::kInconclusive;
    cost.why = "the quartiles lie on both sides of " + limit;
    cost.next = "more --rounds or --steps";
  }
}

}  // namespace

double step_s(double short_run_s, double long_run_s, std::int64_t steps) {
  return (long_run_s - short_run_s) / static_cast<double>((kLongRun - 1) * steps);
}

Quartiles quartiles_of(std::vector<double> values) {
  LOCKSTEP_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return {.lower = quantile(values, 0.25), .median = quantile(values, 0.5), .upper = quantile(values, 0.75)};
}

Cost cost_of(const std::vector<CostRound>& rounds, std::optional<double> at_most) {
  Cost cost;
  std::vector<double> variant_s, against_s, ratios;
  for (const CostRound& round : rounds) {
    if (!round.is_valid()) continue;
    variant_s.push_back(round.variant_s);
    against_s.push_back(round.against_s);
    ratios.push_back(round.ratio());
  }
  cost.valid = ratios.size();
  if (cost.valid > 0) {
    cost.variant_s = quartiles_of(variant_s);
    cost.against_s = quartiles_of(against_s);
    cost.ratio = quartiles_of(ratios);
  }
  if (cost.valid == 0 || 2 * cost.valid < rounds.size()) {
    cost.status = judge::Status::kInconclusive;
    cost.why = "a step is shorter than what runs vary by";
    cost.next = "more --steps";
  } else if (at_most && cost.valid < kLeastRounds) {
    cost.status = judge::Status::kInconclusive;
    cost.why = "only " + std::to_string(cost.valid) + " rounds have a time, and " + std::to_string(kLeastRounds) +
               " are needed";
    cost.next = "more --rounds";
  } else if (at_most) {
    decide(cost, *at_most);
  }
  return cost;
}

}  // namespace lockstep::app
