#include "harness/diagnosis/update_terms_causes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/base/text.h"
#include "harness/laws/rate_curve.h"
#include "harness/laws/update.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::GroupUpdate;

/// One rank's update of one group.
struct Updated {
  std::string place;
  double ranks;
  bool is_first = false;  ///< no update before it had a rate
  GroupUpdate update;
  const std::vector<GroupUpdate>& groups;
};

std::string told(const char* what, const laws::Coefficient& coefficient) {
  return std::string(what) + " counts " + rounded(coefficient.found, 5) + ", promised " +
         rounded(coefficient.promised, 5);
}

std::vector<Suspect> of_momentum(const Updated& at) {
  const auto& momentum = at.update.momentum;
  if (!momentum || momentum->residual > laws::kFactorFits) return {};
  const auto& [keep, take, decay, residual] = *momentum;
  const double rate = at.update.rate, ratio = rate / at.update.rate_before;
  const auto suspect = [&](const char* cause, const std::string& seen, const std::string& meaning) {
    return std::vector<Suspect>{{cause, {at.place + ": in the momentum " + seen, meaning}}};
  };
  if (keep.holds() && take.holds() && !decay.holds())
    return suspect("opt.decay_scale", told("the weight", decay), "gradient and momentum count as promised");
  const bool rate_inside = take.is(take.promised * rate) && rate != 1 && keep.holds() && at.update.change;
  if (rate_inside && at.update.change->step.is(1))
    return suspect("opt.momentum_correction", told("the gradient", take),
                   "that is " + rounded(rate, 5) +
                       " times as much: the rate is kept inside the momentum, and the step leaves it out");
  const bool changed = std::isfinite(ratio) && ratio > 0 && std::fabs(ratio - 1) > laws::kFactorFits;
  if (changed && take.holds() && (keep.is(keep.promised * ratio) || keep.is(keep.promised / ratio)))
    return suspect("opt.momentum_correction", told("the momentum before", keep),
                   "the rate has just changed from " + rounded(at.update.rate_before, 5) + " to " + rounded(rate, 5));
  return {};
}

/// A rule scales the rates of all groups.
bool scales_all_groups(const Updated& at, double factor) {
  return std::all_of(at.groups.begin(), at.groups.end(), [&](const GroupUpdate& group) {
    return group.change && group.change->step.is(factor * group.change->step.promised);
  });
}

std::vector<Suspect> of_change(const Updated& at) {
  const auto& change = at.update.change;
  if (!change || change->residual > laws::kFactorFits + change->rounding) return {};
  const double factor = change->step.found / change->step.promised;
  const std::string seen = at.place + ": in the change of the weights ";
  if (change->step.holds()) {
    if (change->decay.holds()) return {};
    return {{"opt.decay_scale", {seen + told("the weight", change->decay), "the gradient's part is as promised"}}};
  }
  if (!at.is_first) return {};  // a rule is applied from the first update on
  for (const double wrong : {at.ranks, 1 / at.ranks, std::sqrt(at.ranks), 1 / std::sqrt(at.ranks)}) {
    if (at.ranks < 2 || !scales_all_groups(at, wrong)) continue;
    return {{"lr.scaled_wrongly",
             {seen + told("the direction", change->step),
              "that is " + rounded(factor, 5) + " times the ledger's rate, with " + to_decimal(at.ranks) + " ranks"}}};
  }
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_update_terms(const trace::RunTrace& run, const scenario::Promises& promises,
                                              std::int64_t step) {
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const std::vector<GroupUpdate> groups = laws::updates_of(run, promises, rank, step);
    for (const GroupUpdate& update : groups) {
      const Updated at{.place = "step " + std::to_string(step) + ", " + run.run + " rank " + std::to_string(rank),
                       .ranks = static_cast<double>(run.world_size()),
                       .is_first = laws::are_zero_before(laws::rates_of(run.ranks[rank], "learning_rate"), step),
                       .update = update,
                       .groups = groups};
      if (auto found = of_momentum(at); !found.empty()) return found;
      if (auto found = of_change(at); !found.empty()) return found;
    }
  }
  return {};
}

}  // namespace lockstep::diagnosis
