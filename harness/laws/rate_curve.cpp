#include "harness/laws/rate_curve.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/recipe/schedule_rule.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

std::size_t group_named(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? 0 : std::stoul(name.substr(dot + 1));
}

/// Lengths of the warm-ups of a schedule or rule, in its steps: also those of its factors, and a first phase that
/// rises.
std::vector<Json*> warmups_in(Json& options) {
  if (!options.is_object()) return {};
  std::vector<Json*> found;
  if (options.value("warmup", 0.0) > 0) found.push_back(&options["warmup"]);
  if (options.contains("of")) {
    for (Json& factor : options["of"]) {
      for (Json* const warmup : warmups_in(factor)) found.push_back(warmup);
    }
  }
  if (options.contains("phases")) {
    Json& first = options["phases"][0];
    if (first.value("from", 1.0) < first.at("to").get<double>()) found.push_back(&first["steps"]);
  }
  return found;
}

/// The recipe with its warm-ups stretched.
recipe::TrainSpec with_warmup(recipe::TrainSpec train, double factor) {
  for (Json* options : {&train.schedule.options, &train.learning_rate_rule.options}) {
    for (Json* const warmup : warmups_in(*options)) {
      const double length = factor * warmup->get<double>();
      *warmup = warmup->is_number_integer() ? Json(std::max(std::llround(length), 1LL)) : Json(length);
    }
  }
  return train;
}

/// Losses as a schedule sees them that takes so many steps for each update.
std::vector<double> repeated(const std::vector<double>& losses, double steps) {
  if (steps < 1) return {};
  std::vector<double> seen;
  for (const double loss : losses) seen.insert(seen.end(), static_cast<std::size_t>(steps), loss);
  return seen;
}

/// Steps whose rates are a curve's.
struct OnCurve {
  std::size_t known = 0;  ///< 0 where one is not
  bool changes = false;   ///< whether the curve is no flat line there
};

OnCurve steps_on(const Rates& rates, const Curve& curve) {
  if (!curve) return {};
  double largest = 0;
  for (const auto& [step, rate] : rates) largest = std::max(largest, std::fabs(rate));
  OnCurve on;
  std::optional<double> first;
  for (const auto& [step, rate] : rates) {
    const std::optional<double> expected = step < 0 ? std::nullopt : curve(step);
    if (!expected) continue;
    const double tolerance = kSameRate * std::max(largest, std::fabs(*expected));
    if (!(std::fabs(rate - *expected) <= tolerance)) return {};
    if (!first) first = expected;
    on.changes = on.changes || std::fabs(*expected - *first) > tolerance;
    ++on.known;
  }
  return on;
}

/// The rate of a group after so many steps of its schedule. Empty if no closed form is known.
Curve form_of(const scenario::Promises& promises, const std::string& name, double warmup,
              const std::vector<double>& losses) {
  if (promises.train.checkpoint.load) return nullptr;
  const std::vector<double> bases = recipe::base_learning_rates(promises.train, promises.world_size);
  const std::size_t group = group_named(name);
  if (group >= bases.size()) return nullptr;
  const auto train = std::make_shared<const recipe::TrainSpec>(with_warmup(promises.train, warmup));
  const double factor = recipe::rule_factor(promises.train, promises.world_size);
  const auto form = std::make_shared<recipe::ScheduleForm>(train->schedule, bases[group]);
  return [=](std::int64_t steps) -> std::optional<double> {
    const auto expected = form->after(steps, losses);
    if (!expected) return std::nullopt;
    return expected->rate * recipe::rule_warmup(*train, factor, steps);
  };
}

}  // namespace

Rates rates_of(const trace::Trace& rank, const std::string& name) {
  Rates rates;
  for (const trace::Step& step : rank.steps) {
    const trace::Record* record = step.find(trace::Channel::kLedger, name);
    if (record != nullptr && record->number) rates[step.step] = *record->number;
  }
  return rates;
}

bool are_zero_before(const Rates& rates, std::int64_t step) {
  return std::all_of(rates.begin(), rates.lower_bound(step), [](const auto& rate) { return rate.second == 0; });
}

Curve curve_of(const scenario::Promises& promises, const std::string& name, const Counting& counting,
               const std::vector<double>& losses) {
  const Curve form = form_of(promises, name, counting.warmup, repeated(losses, counting.steps));
  if (!form) return nullptr;
  return [=](std::int64_t update) {
    return form(static_cast<std::int64_t>(std::floor(static_cast<double>(update) * counting.steps + kSameRate)));
  };
}

Curve promised_curve(const scenario::Promises& promises, const std::string& name, const std::vector<double>& losses,
                     const trace::Trace& rank) {
  if (promises.train.schedule_every != recipe::ScheduleEvery::kEpoch) {
    const bool by_rank = promises.train.schedule_every == recipe::ScheduleEvery::kRank;
    return curve_of(promises, name, {.steps = by_rank ? static_cast<double>(promises.world_size) : 1}, losses);
  }
  const Curve form =
      promises.train.schedule.kind == recipe::ScheduleKind::kPlateau ? nullptr : form_of(promises, name, 1, {});
  if (!form) return nullptr;
  std::map<std::int64_t, std::int64_t> epochs;
  for (const trace::Step& step : rank.steps) {
    const trace::Record* const epoch = step.find(trace::Channel::kLedger, trace::entry::kEpoch);
    if (epoch != nullptr && epoch->integers.size() == 1) epochs[step.step] = epoch->integers[0];
  }
  return [=](std::int64_t update) -> std::optional<double> {
    const auto epoch = epochs.find(update);
    return epoch == epochs.end() ? std::nullopt : form(epoch->second);
  };
}

Curve stretched(const Rates& rates, double steps) {
  return [=](std::int64_t update) -> std::optional<double> {
    const double at = static_cast<double>(update) * steps;
    const auto found = rates.find(static_cast<std::int64_t>(std::floor(at + kSameRate)));
    if (found == rates.end()) return std::nullopt;
    return found->second;
  };
}

bool follows(const Rates& rates, const Curve& curve) { return steps_on(rates, curve).known >= 2; }

bool traces(const Rates& rates, const Curve& curve) {
  const OnCurve steps = steps_on(rates, curve);
  return steps.known >= 2 && steps.changes;
}

std::int64_t warmup_of(const scenario::Promises& promises) {
  std::int64_t longest = 0;
  for (Json options : {promises.train.schedule.options, promises.train.learning_rate_rule.options}) {
    for (const Json* const warmup : warmups_in(options)) longest = std::max(longest, warmup->get<std::int64_t>());
  }
  return longest;
}

}  // namespace lockstep::laws
