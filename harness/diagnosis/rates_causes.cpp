#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/schedule_steps_causes.h"
#include "harness/laws/held.h"
#include "harness/laws/rate_curve.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Curve;
using laws::Rates;
using trace::Channel;

/// Factors between rates this near to each other are one.
constexpr double kSameFactor = 1e-6;

const std::string kRate = "learning_rate";

bool equal(double a, double b) { return std::fabs(a - b) <= laws::kSameRate * std::max(std::fabs(a), std::fabs(b)); }

/// One side's rates, and what they may have been counted by.
struct Accused {
  const Side& side;
  const Side& other;
  std::string name;
  std::int64_t step = 0;  ///< where the sides part

  Rates rates() const { return laws::rates_of(side.run->ranks[side.rank], name); }
  Rates others() const { return other ? laws::rates_of(other.run->ranks[other.rank], name) : Rates{}; }
  double ranks() const { return static_cast<double>(side.run->world_size()); }
  double micro_batches() const { return static_cast<double>(side.promises->train.batch.accumulation); }
  bool same_batch() const {
    return other && side.promises->train.batch.global_size(side.run->world_size()) ==
                        other.promises->train.batch.global_size(other.run->world_size());
  }
};

/// Losses that a schedule may have followed, from the first update on; `local`: the rank's own.
std::vector<double> losses_of(const trace::Trace& rank, bool local) {
  std::vector<double> losses;
  for (const trace::Step& step : rank.steps) {
    if (step.step < 0) continue;
    if (step.step != static_cast<std::int64_t>(losses.size())) break;
    double loss = 0;
    bool any = false;
    for (const trace::Record& record : step.records) {
      if (record.channel != Channel::kLoss || !record.number) continue;
      if (laws::is_own_loss(record) != local) continue;
      loss += *record.number;
      any = true;
    }
    if (!any) break;
    losses.push_back(loss);
  }
  return losses;
}

std::string shown(const Accused& of, const Rates& rates) {
  const auto found = rates.find(of.step);
  return found == rates.end() ? "none" : to_decimal(found->second);
}

std::vector<std::string> observations(const Accused& of) {
  return {"step " + std::to_string(of.step) + ", " + of.side.run->run + ": " + of.name + " is " +
          shown(of, of.rates()) + (of.other ? ", of " + of.other.run->run + " " + shown(of, of.others()) : "")};
}

Suspect suspect(const Accused& of, const char* cause, const std::string& more) {
  std::vector<std::string> evidence = observations(of);
  evidence.push_back(more);
  return {cause, evidence};
}

/// The rates of `recipe` with its warm-up in another unit.
std::optional<Suspect> warmup_unit(const Accused& of, const scenario::Promises& recipe, const Rates& rates) {
  if (laws::warmup_of(recipe) == 0 || recipe.train.schedule_every == recipe::ScheduleEvery::kEpoch) return std::nullopt;
  const double w = of.ranks(), a = of.micro_batches(),
               batch = static_cast<double>(recipe.train.batch.global_size(of.side.run->world_size()));
  for (const double unit : {w, a, w * a, batch, batch / w}) {
    for (const double factor : {unit, 1 / unit}) {
      if (unit == 1 || !laws::traces(rates, laws::curve_of(recipe, of.name, {.warmup = factor}, {}))) continue;
      return suspect(of, "lr.warmup_unit",
                     "every rate follows a warm-up of " +
                         to_decimal(factor * static_cast<double>(laws::warmup_of(recipe))) + " updates instead of " +
                         std::to_string(laws::warmup_of(recipe)) + "; " + to_decimal(w) + " ranks, " + to_decimal(a) +
                         " micro-batches");
    }
  }
  return std::nullopt;
}

/// The rates of `recipe` with other steps of the schedule for each update, or a step for each epoch.
std::optional<Suspect> schedule_rate(const Accused& of, const scenario::Promises& recipe, const Rates& rates,
                                     const std::vector<double>& losses) {
  using recipe::ScheduleEvery;
  const ScheduleEvery every = recipe.train.schedule_every;
  const double w = of.ranks(), own = every == ScheduleEvery::kEpoch ? 0 : every == ScheduleEvery::kRank ? w : 1;
  for (const double steps : {w, 1 / w, 1.0}) {
    if (steps == own || !laws::traces(rates, laws::curve_of(recipe, of.name, {.steps = steps}, losses))) continue;
    return suspect(of, "lr.schedule_rate",
                   "every rate follows a schedule that takes " + rounded(steps, 3) + (steps == 1 ? " step" : " steps") +
                       " for each update" + (own == 0 ? ", and not one for each epoch" : "") +
                       (w > 1 ? ", with " + to_decimal(w) + " ranks" : ""));
  }
  scenario::Promises by_epoch = recipe;
  by_epoch.train.schedule_every = recipe::ScheduleEvery::kEpoch;
  if (own == 0 ||
      !laws::traces(rates, laws::promised_curve(by_epoch, of.name, losses, of.side.run->ranks[of.side.rank])))
    return std::nullopt;
  return suspect(of, "lr.schedule_rate", "every rate follows a schedule that takes one step for each epoch");
}

/// Against closed forms: of the side's own recipe, or of the other's.
std::vector<Suspect> suspects_of_forms(const Accused& of) {
  const Rates rates = of.rates();
  const std::vector<double> losses = losses_of(of.side.run->ranks[of.side.rank], false);
  for (const scenario::Promises* recipe : {of.side.promises, of.other.promises}) {
    const trace::Trace& rank = of.side.run->ranks[of.side.rank];
    if (recipe == nullptr || laws::follows(rates, laws::promised_curve(*recipe, of.name, losses, rank))) continue;
    std::vector<Suspect> found;
    if (auto suspect = warmup_unit(of, *recipe, rates)) found.push_back(std::move(*suspect));
    if (auto suspect = schedule_rate(of, *recipe, rates, losses)) found.push_back(std::move(*suspect));
    // A linear warm-up of half the length is one of two steps for each update. Only another side can tell them apart.
    if (found.size() > 1 && !of.other) return {};
    if (!found.empty()) return found;
  }
  return {};
}

/// Against the other side's record, where no form is known: rates at another pace.
std::vector<Suspect> suspects_of_pace(const Accused& of) {
  const Rates rates = of.rates(), others = of.others();
  if (of.ranks() < 2 || others.empty()) return {};
  for (const double steps : {of.ranks(), 1 / of.ranks()}) {
    const Curve curve = laws::stretched(others, steps);
    if (!laws::traces(rates, curve)) continue;
    // Where both paces give the same, nothing is told.
    const bool tells = std::any_of(others.begin(), others.end(), [&](const auto& at) {
      const auto expected = rates.count(at.first) > 0 ? curve(at.first) : std::nullopt;
      return expected && !equal(*expected, at.second);
    });
    if (tells)
      return {suspect(
          of, "lr.schedule_rate",
          "its rates are those of " + of.other.run->run + " after " + rounded(steps, 3) + " times as many updates")};
  }
  return {};
}

/// Updates of a side's first epoch, as its ledger counts them; 0 where no second one begins.
std::int64_t updates_of_epoch(const Side& side) {
  const trace::Trace& rank = side.run->ranks[side.rank];
  for (const char* entry : {trace::entry::kPasses, trace::entry::kEpoch}) {
    for (const trace::Step& step : rank.steps) {
      const trace::Record* record = step.find(Channel::kLedger, entry);
      if (record != nullptr && record->integers == std::vector<std::int64_t>{1}) return step.step;
    }
  }
  return 0;
}

/// Schedules of which one counts its length in epochs, and both are stepped alike: every rate of the one is the other's
/// so many updates later.
std::vector<Suspect> suspects_of_length(const Accused& of) {
  const Rates rates = of.rates(), others = of.others();
  const std::int64_t unit = of.other ? updates_of_epoch(of.side) : 0;
  if (unit < 2 || others.empty()) return {};
  std::size_t apart = 0;  // with the other's later rate, and not with that of the same step
  for (const auto& [step, rate] : rates) {
    const auto later = others.find(unit * step), now = others.find(step);
    if (step < 0 || later == others.end() || now == others.end()) continue;
    if (!equal(rate, later->second)) return {};
    apart += equal(rate, now->second) ? 0 : 1;
  }
  if (apart < 2) return {};
  return {suspect(of, "lr.schedule_rate",
                  "its rates are those of " + of.other.run->run + " after " + std::to_string(unit) +
                      " times as many updates, which is an epoch's number of them")};
}

/// The one factor between rates and what they are held against, from the first difference on.
std::optional<double> factor_from(const Rates& rates, const Curve& expected, std::int64_t first) {
  std::optional<double> factor;
  for (auto at = rates.lower_bound(first); at != rates.end(); ++at) {
    const std::optional<double> other = expected(at->first);
    if (!other || (*other == 0 && at->second == 0)) continue;
    const double ratio = at->second / *other;
    if (!std::isfinite(ratio) || ratio == 0) return std::nullopt;
    if (factor && std::fabs(ratio / *factor - 1) > kSameFactor) return std::nullopt;
    factor = ratio;
  }
  return factor;
}

/// Whether every group's rates have the factor that this one's have against the recipe: a rule scales them all.
bool scales_all_groups(const Accused& of, double factor, const std::vector<double>& losses) {
  const std::size_t groups = recipe::parameter_groups(of.side.promises->train.optimizer).size();
  for (std::size_t group = 0; group < groups; ++group) {
    const std::string name = kRate + (group > 0 ? "." + std::to_string(group) : "");
    const Curve expected = laws::promised_curve(*of.side.promises, name, losses, of.side.run->ranks[of.side.rank]);
    const Rates rates = laws::rates_of(of.side.run->ranks[of.side.rank], name);
    const auto its = expected ? factor_from(rates, expected, of.step) : std::optional(factor);
    if (!its || std::fabs(*its / factor - 1) > kSameFactor) return false;
  }
  return true;
}

std::vector<Suspect> suspects_of_factor(const Accused& of, const Curve& expected) {
  if (!expected) return {};
  const auto factor = factor_from(of.rates(), expected, of.step);
  if (!factor) return {};
  const auto is = [&](double value) {
    return std::fabs(value - 1) > kSameFactor && std::fabs(*factor / value - 1) < kSameFactor;
  };
  const double w = of.ranks(), rule = recipe::rule_factor(of.side.promises->train, of.side.run->world_size());
  // A rule is applied from the first update on; what begins later is something else, a schedule for instance.
  const bool from_the_first = laws::are_zero_before(of.rates(), of.step);
  const std::string all = "every rate from there on is " + rounded(*factor, 6) + " times as large";
  if (from_the_first && is(1 / rule))
    return {suspect(of, "lr.not_scaled",
                    all + ": the rule's factor for this batch, " + rounded(rule, 6) + ", was not applied")};
  const auto alike = [&](const Side& side) {  // on all ranks: else one of them has a rate of its own
    const std::vector<trace::Trace>& ranks = side.run->ranks;
    const Rates first = laws::rates_of(ranks[0], of.name);
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const trace::Trace& rank) { return laws::rates_of(rank, of.name) == first; });
  };
  const auto on_all_ranks = [&] { return alike(of.side) && (!of.other || alike(of.other)); };
  for (const double wrong : {w, 1 / w, std::sqrt(w)}) {
    const auto scales_all = [&] {
      return scales_all_groups(of, *factor, losses_of(of.side.run->ranks[of.side.rank], false));
    };
    if (from_the_first && is(wrong) && on_all_ranks() && (of.other || scales_all()))
      return {suspect(of, "lr.scaled_wrongly", all + ", with " + to_decimal(w) + " ranks")};
  }
  return {};
}

/// The step from which on a schedule follows a rank's own losses, after those of all; the number of steps where it
/// follows those of all to the end; nothing where it follows neither.
std::optional<std::size_t> follows_own_from(const Rates& rates, const scenario::Promises& promises,
                                            const std::string& name, const std::vector<double>& own,
                                            const std::vector<double>& of_all) {
  if (laws::follows(rates, laws::curve_of(promises, name, {}, of_all))) return own.size();
  std::vector<double> losses = own;
  for (std::size_t from = 0; from < own.size(); ++from) {
    if (laws::follows(rates, laws::curve_of(promises, name, {}, losses))) return from;
    if (from == of_all.size()) return std::nullopt;
    losses[from] = of_all[from];
  }
  return std::nullopt;
}

/// Ranks of one run at different rates, where a schedule follows a metric.
std::vector<Suspect> suspects_of_ranks(const Side& side, const std::string& name, std::int64_t step) {
  const auto rate_of = [&](std::size_t rank) {
    const trace::Record* record = side.run->ranks[rank].find(step, Channel::kLedger, name);
    return record == nullptr ? std::nullopt : record->number;
  };
  if (side.promises->train.schedule.kind != recipe::ScheduleKind::kPlateau) return {};
  std::vector<std::string> evidence;
  for (std::size_t rank = 1; rank < side.run->ranks.size() && evidence.empty(); ++rank) {
    const auto first = rate_of(0), its = rate_of(rank);
    if (first && its && !equal(*first, *its))
      evidence.push_back(place_of(*side.run, step) + ": " + name + " is " + to_decimal(*first) + " on rank 0 and " +
                         to_decimal(*its) + " on rank " + std::to_string(rank));
  }
  if (evidence.empty()) return {};
  for (std::size_t rank = 0; rank < side.run->ranks.size(); ++rank) {
    const trace::Trace& its = side.run->ranks[rank];
    const std::vector<double> own = losses_of(its, true);
    const bool by_epoch = side.promises->train.schedule_every == recipe::ScheduleEvery::kEpoch;
    if (own.empty() || by_epoch || !laws::curve_of(*side.promises, name, {}, own))
      return {{"control.local_metric", evidence}};
    const auto from = follows_own_from(laws::rates_of(its, name), *side.promises, name, own, losses_of(its, false));
    if (!from) return {};  // they part for another reason
    if (*from < own.size())
      evidence.push_back("rank " + std::to_string(rank) + "'s rates are those of a schedule that follows the rank's " +
                         "own loss" + (*from == 0 ? "" : " from step " + std::to_string(*from) + " on"));
  }
  return {{"control.local_metric", evidence}};
}

/// The group whose rates part first, of those that both hold.
std::optional<std::string> parting(const Scene& scene) {
  if (scene.at.channel == Channel::kLedger) {
    if (scene.at.tensor.starts_with(kRate)) return scene.at.tensor;
    return std::nullopt;
  }
  if (scene.at.channel < Channel::kOptimizer || !scene.left || !scene.right) return std::nullopt;
  const trace::Step* step = scene.right.run->ranks[scene.right.rank].find(scene.at.step);
  if (step == nullptr) return std::nullopt;
  for (const trace::Record& its : step->records) {
    if (its.channel != Channel::kLedger || !its.name.starts_with(kRate) || !its.number) continue;
    const trace::Record* theirs = scene.left.find(scene.at.step, Channel::kLedger, its.name);
    if (theirs != nullptr && theirs->number && !equal(*its.number, *theirs->number)) return its.name;
  }
  return std::nullopt;
}

bool resumes(const Side& side) { return side && side.promises->train.checkpoint.load.has_value(); }

/// First what each side's own promise tells, then the comparison.
std::vector<Suspect> suspects_of_sides(const Scene& scene, const std::string& name) {
  std::vector<Accused> sides;
  if (scene.right) sides.push_back({scene.right, scene.left, name, scene.at.step});
  if (scene.left) sides.push_back({scene.left, scene.right, name, scene.at.step});
  for (const Accused& of : sides) {
    if (auto found = suspects_of_forms(of); !found.empty()) return found;
  }
  for (const Accused& of : sides) {
    const trace::Trace& rank = of.side.run->ranks[of.side.rank];
    const Curve promised = laws::promised_curve(*of.side.promises, name, losses_of(rank, false), rank);
    if (auto found = suspects_of_factor(of, promised); !found.empty()) return found;
  }
  for (const Accused& of : sides) {
    if (auto found = suspects_of_pace(of); !found.empty()) return found;
    if (auto found = suspects_of_length(of); !found.empty()) return found;
    if (!of.same_batch()) continue;
    if (auto found = suspects_of_factor(of, laws::stretched(of.others(), 1)); !found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_rates(const Scene& scene) {
  if (resumes(scene.left) || resumes(scene.right)) return {};
  const std::optional<std::string> name = parting(scene);
  if (!name) return suspects_in_rates_alone(scene);
  if (auto found = suspects_in_schedule_steps(scene, *name); !found.empty()) return found;
  const auto of_ranks = between(scene, [&](const Side& side) { return suspects_of_ranks(side, *name, scene.at.step); });
  const bool plateau = scene.right && scene.right.promises->train.schedule.kind == recipe::ScheduleKind::kPlateau;
  if (plateau && !of_ranks.empty()) return of_ranks;
  const bool within_a_run = scene.left && scene.right && scene.left.run == scene.right.run;
  if (auto found = within_a_run ? std::vector<Suspect>() : suspects_of_sides(scene, *name); !found.empty())
    return found;
  return of_ranks.empty() ? suspects_in_rates_alone(scene) : of_ranks;
}

}  // namespace lockstep::diagnosis
