#include "harness/laws/reduction.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/finite.h"
#include "harness/laws/held.h"
#include "harness/laws/scales.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::DType;
using trace::Record;

/// What a number below float16's range may lose when it is sent in float16: half of the smallest one.
constexpr double kHalfUnderflow = 0x1p-25;

/// A weight below it is shown as 0.
constexpr double kShownAsZero = 1e-9;

/// The least number that is infinite once it is rounded to a dtype of this roundoff.
double sent_as_infinity(double unit_roundoff) {
  return unit_roundoff == trace::unit_roundoff(DType::kFloat16) ? 65520 : INFINITY;
}

/// The local gradient of this name, which is looked for at `at` first; moves `at` to it. Null if there is none.
const Record* local_in(const trace::Step& step, const std::string& name, std::size_t& at) {
  const auto is_it = [&](const Record& record) {
    return record.channel == Channel::kGradientLocal && record.name == name;
  };
  if (at < step.records.size() && is_it(step.records[at])) return &step.records[at];
  const auto found = std::find_if(step.records.begin(), step.records.end(), is_it);
  if (found == step.records.end()) return nullptr;
  at = static_cast<std::size_t>(found - step.records.begin());
  return &*found;
}

double weight_of(const scenario::Promises& promises) {
  return promises.train.ddp.average ? 1.0 / static_cast<double>(promises.world_size) : 1.0;
}

}  // namespace

double sent_roundoff(const scenario::Promises& promises) {
  const std::string& compression = promises.train.ddp.compression;
  if (compression == "fp16") return trace::unit_roundoff(DType::kFloat16);
  return trace::unit_roundoff(compression == "bf16" ? DType::kBFloat16 : DType::kFloat32);
}

ReductionLaw::ReductionLaw(const trace::RunTrace& run, double weight, double unit_roundoff)
    : run_(run), weight_(weight), unit_roundoff_(unit_roundoff) {}

ReductionLaw::ReductionLaw(const trace::RunTrace& run, const scenario::Promises& promises)
    : ReductionLaw(run, weight_of(promises), sent_roundoff(promises)) {}

/// `reduced` of the gradients of the same name before the reduction; a rank that had none adds nothing.
Equation ReductionLaw::equation(std::int64_t step, const Record& reduced) const {
  Equation equation{.target = &*reduced.sketch, .terms = {}};
  std::size_t at = 0;  // of the rank before: ranks record the same tensors in the same order, as a rule
  for (const trace::Trace& rank : run_.ranks) {
    const trace::Step* of_rank = rank.find(step);
    const Record* own = of_rank == nullptr ? nullptr : local_in(*of_rank, reduced.name, at);
    equation.terms.push_back(own == nullptr || !own->sketch ? nullptr : &*own->sketch);
  }
  return equation;
}

Reduction ReductionLaw::judge(std::int64_t step, std::int64_t rank) const {
  Reduction result;
  const trace::Step* own_step = run_.ranks.at(static_cast<std::size_t>(rank)).find(step);
  if (own_step == nullptr) return result;
  const auto ranks = static_cast<double>(run_.world_size());
  const std::vector<double> promised(run_.ranks.size(), weight_);
  std::vector<Equation> broken;
  for (const Record& record : own_step->records) {
    if (record.channel != Channel::kGradient || !record.sketch || !is_plain(record)) continue;
    const Equation equation = this->equation(step, record);
    double addends = 0;
    bool any = false, all_finite = true;
    for (const trace::Sketch* term : equation.terms) {
      if (term == nullptr) continue;
      any = true;
      all_finite = all_finite && std::isfinite(term->norm) && term->max_abs < sent_as_infinity(unit_roundoff_);
      addends += term->norm;
    }
    // Gradients that are not finite, of a scaled loss that overflows, make a reduced one that is not.
    if (!any) continue;
    if (!all_finite && !is_finite(record)) {
      result.lost.push_back(record.name);
      continue;
    }
    result.judged.push_back(record.name);
    const double error = count_of(record) > static_cast<double>(trace::Sketch::kBuckets) ? kSketchError : 1;
    const double underflow = unit_roundoff_ == trace::unit_roundoff(DType::kFloat16) ? kHalfUnderflow : kLeastNormal;
    const double bound =
        error * (ranks + 2) * (2 * unit_roundoff_ * weight_ * addends + underflow * std::sqrt(count_of(record)));
    const double distance = distance_to(equation, promised);
    if (distance <= bound) continue;
    if (result.broken.empty()) {
      result.distance = distance;
      result.bound = bound;
    }
    result.broken.push_back(record.name);
    broken.push_back(equation);
  }
  result.weights = recover(broken);
  return result;
}

std::optional<std::int64_t> ReductionLaw::first_broken(std::int64_t step) const {
  for (std::int64_t rank = 0; rank < run_.world_size(); ++rank) {
    if (!judge(step, rank).broken.empty()) return rank;
  }
  return std::nullopt;
}

std::string to_text(const Combination& combination) {
  std::string text;
  for (const double coefficient : combination.coefficients)
    text += (text.empty() ? "" : ", ") + rounded(std::fabs(coefficient) < kShownAsZero ? 0 : coefficient, 5);
  return text;
}

}  // namespace lockstep::laws
