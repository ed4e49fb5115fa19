#include "harness/diagnosis/gradient_terms_causes.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/scales.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using laws::Made;
using laws::OwnGradients;
using trace::Channel;

/// Sides that differ by less are not looked at, and a term that explains less is none.
constexpr double kLeastPart = laws::kFits / 10;

/// A term explains a rest if without it so many times as much is left.
constexpr double kExplains = 10;

/// More terms than these a sketch tells apart too badly.
constexpr std::size_t kMostTerms = trace::Sketch::kBuckets * 3 / 4;

bool same_weight(double a, double b) { return std::fabs(a - b) <= laws::kSameWeight * std::max(1.0, std::fabs(b)); }

/// What stood in the gradients before the step: those of the last update, after all that was done to them.
Made standing(const Side& side, std::int64_t step) {
  Made made;
  const Held before(*side.run, side.rank, step - 1);
  for (const auto& [name, record] : laws::final_gradients(before)) {
    if (record->sketch) made.emplace(name, *record->sketch);
  }
  return made;
}

Made weights_before(const Side& side, std::int64_t step) {
  return laws::made_of(Held(*side.run, side.rank, step - 1).all(Channel::kWeight));
}

std::vector<Suspect> not_zeroed(const Side& side, std::int64_t step, const Made& own, const Made& others) {
  const Made stood = standing(side, step);
  if (stood.empty()) return {};
  const auto terms = laws::fit(own, {&others, &stood});
  if (!terms || terms->residual > laws::kFits) return {};
  if (!same_weight(terms->coefficients[0], 1) || !same_weight(terms->coefficients[1], 1)) return {};
  return {{"grad.not_zeroed",
           {place_of(*side.run, step) + ": the gradients before the reduction are " +
                rounded(terms->coefficients[0], 5) + " times the other side's plus " +
                rounded(terms->coefficients[1], 5) + " times its own gradients of update " + std::to_string(step - 1),
            "the unexplained rest is " + rounded(terms->residual, 3) + " of them"}}};
}

/// A part of the weights in the gradients: an L2 term of the loss, that one side scales or does not have.
std::vector<Suspect> decay_in_loss(const Side& side, std::int64_t step, const Made& own, const Made& others) {
  const Made weights = weights_before(side, step);
  if (weights.empty()) return {};
  const auto terms = laws::fit(own, {&others, &weights});
  if (!terms || terms->residual > laws::kFits || !same_weight(terms->coefficients[0], 1)) return {};
  // Without the weights something must be left that they explain.
  const auto alone = laws::fit(own, {&others});
  if (!alone || alone->residual < std::max(kExplains * terms->residual, kLeastPart)) return {};
  return {{"opt.decay_scale",
           {place_of(*side.run, step) + ": the gradients before the reduction are the other side's plus " +
                rounded(terms->coefficients[1], 4) + " times the weights",
            "the unexplained rest is " + rounded(terms->residual, 3) + " of them"}}};
}

/// Weights of each rank's own gradients of two parameters in one reduced gradient: each rank gave one of the two.
std::optional<std::vector<std::size_t>> strangers(const laws::Combination& mixed, std::size_t ranks) {
  if (mixed.residual > laws::kFits) return std::nullopt;
  const double mean = 1 / static_cast<double>(ranks);
  std::vector<std::size_t> from;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double own = mixed.coefficients[rank] / mean, other = mixed.coefficients[ranks + rank] / mean;
    const bool gave_other = same_weight(own, 0) && same_weight(other, 1);
    if (!gave_other && !(same_weight(own, 1) && same_weight(other, 0))) return std::nullopt;
    if (gave_other) from.push_back(rank);
  }
  if (from.empty()) return std::nullopt;
  return from;
}

/// The ranks' own gradients of one parameter; empty where a rank has none.
std::vector<const trace::Record*> own_of(const OwnGradients& own, const std::string& name) {
  std::vector<const trace::Record*> records;
  for (const Held& held : own.held()) {
    const trace::Record* record = held.find(Channel::kGradientLocal, name);
    if (record == nullptr || !record->sketch) return {};
    records.push_back(record);
  }
  return records;
}

}  // namespace

namespace {

/// Leaves out what both sides hold alike: of several optimizers, one may be at fault.
void keep_differences(Made& left, Made& right) {
  for (auto its = right.begin(); its != right.end();) {
    const auto theirs = left.find(its->first);
    const bool same = theirs != left.end() && theirs->second.buckets == its->second.buckets;
    if (same) left.erase(theirs);
    its = same ? right.erase(its) : std::next(its);
  }
}

}  // namespace

std::vector<Suspect> suspects_in_gradient_terms(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  const OwnGradients left(*scene.left.run, scene.at.step), right(*scene.right.run, scene.at.step);
  if (!left.complete() || !right.complete()) return {};
  Made of_left = left.mean(), of_right = right.mean();
  keep_differences(of_left, of_right);
  if (!(laws::apart(of_right, of_left) > kLeastPart)) return {};
  for (const auto terms_of : {not_zeroed, decay_in_loss}) {
    if (auto found = terms_of(scene.right, scene.at.step, of_right, of_left); !found.empty()) return found;
    if (auto found = terms_of(scene.left, scene.at.step, of_left, of_right); !found.empty()) return found;
  }
  return {};
}

std::vector<Suspect> suspects_in_collective_order(const trace::RunTrace& run, std::int64_t step) {
  const std::size_t ranks = run.ranks.size();
  // Twice as many terms as ranks must be fewer than what one sketch tells.
  if (ranks < 2 || 2 * ranks > kMostTerms) return {};
  const laws::Reduction reduction =
      laws::ReductionLaw(run, 1 / static_cast<double>(ranks), trace::unit_roundoff(trace::DType::kFloat32))
          .judge(step, 0);
  if (reduction.broken.empty()) return {};
  const OwnGradients own(run, step);
  const std::string& name = reduction.broken[0];
  const auto mine = own_of(own, name);
  const trace::Record* reduced = own.held()[0].find(Channel::kGradient, name);
  if (mine.empty() || reduced == nullptr || laws::count_of(*reduced) < 2 * static_cast<double>(2 * ranks)) return {};
  for (const std::string& other : reduction.broken) {
    const auto theirs = own_of(own, other);
    if (other == name || theirs.empty() || laws::count_of(*theirs[0]) != laws::count_of(*reduced)) continue;
    laws::Equation equation{.target = &*reduced->sketch, .terms = {}};
    for (const auto* records : {&mine, &theirs}) {
      for (const trace::Record* record : *records) equation.terms.push_back(&*record->sketch);
    }
    const auto mixed = laws::recover({equation});
    const auto from = mixed ? strangers(*mixed, ranks) : std::nullopt;
    if (!from) continue;
    return {{"comm.order_mismatch",
             {place_of(run, step) + ": in the reduced gradient of " + name + ", rank " + std::to_string((*from)[0]) +
                  (from->size() > 1 ? " and others have" : " has") + " its gradient of " + other +
                  " instead of that of " + name,
              "weights of all ranks' own gradients of both: " + laws::to_text(*mixed)}}};
  }
  return {};
}

}  // namespace lockstep::diagnosis
