#include "harness/laws/update.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "harness/recipe/optimizer_rule.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// A few roundings of float32.
constexpr double kRoundoff = 0x1p-21;

double size_of(const Made& made) {
  double squares = 0;
  for (const auto& [name, sketch] : made) squares += sketch.norm * sketch.norm;
  return std::sqrt(squares);
}

Made sum(const Made& a, double factor, const Made& b) {
  Made made = a;
  for (const auto& [name, sketch] : b) {
    trace::Sketch& total = made[name];
    total = sum_of({{1, &total}, {factor, &sketch}});
  }
  return made;
}

/// All that an update is made of.
struct Parts {
  Made gradient, weights, change, old_momentum, momentum;
};

struct Recipe {
  std::string state;  ///< name of its momentum
  double keep = 0, take = 1, decay = 0;
  bool nesterov = false, sgd = false;
};

Recipe recipe_of(recipe::OptimizerKind kind, const Json& options) {
  const double decay = options.value("weight_decay", 0.0);
  if (recipe::traits_of(kind).form == recipe::UpdateForm::kLinear)
    return {.state = "momentum_buffer",
            .keep = options.value("momentum", 0.0),
            .take = 1 - options.value("dampening", 0.0),
            .decay = decay,
            .nesterov = options.value("nesterov", false),
            .sgd = true};
  if (!options.contains("betas")) return {};
  const double beta = options["betas"][0].get<double>();
  return {
      .state = "exp_avg", .keep = beta, .take = 1 - beta, .decay = recipe::traits_of(kind).decouples_decay ? 0 : decay};
}

/// Parameters of one group that have all that is needed.
Parts parts_of(const Held& before, const Held& now, const std::string& state,
               const std::function<bool(const std::string&)>& in_group) {
  Parts parts;
  for (const auto& [name, gradient] : final_gradients(now)) {
    const trace::Record *was = before.find(Channel::kWeight, name), *is = now.find(Channel::kWeight, name);
    if (!in_group(name) || !gradient->sketch || was == nullptr || is == nullptr || !was->sketch || !is->sketch)
      continue;
    parts.gradient[name] = *gradient->sketch;
    parts.weights[name] = *was->sketch;
    parts.change[name] = sum_of({{1, &*was->sketch}, {-1, &*is->sketch}});
    const trace::Record *old = before.find(Channel::kOptimizer, name + "." + state),
                        *momentum = now.find(Channel::kOptimizer, name + "." + state);
    if (old != nullptr && old->sketch) parts.old_momentum[name] = *old->sketch;
    if (momentum != nullptr && momentum->sketch) parts.momentum[name] = *momentum->sketch;
  }
  return parts;
}

bool is_zero(const Made& made) { return size_of(made) == 0; }

std::optional<GroupUpdate::Momentum> momentum_of(const Parts& parts, const Recipe& recipe) {
  if (parts.momentum.empty() || recipe.keep == 0) return std::nullopt;
  const bool first = is_zero(parts.old_momentum);
  std::vector<const Made*> terms{&parts.gradient, &parts.weights};
  if (!first) terms.push_back(&parts.old_momentum);
  const auto fitted = fit(parts.momentum, terms);
  if (!fitted) return std::nullopt;
  const double take = first && recipe.sgd ? 1 : recipe.take;
  const double rounding = kRoundoff * size_of(parts.momentum);
  const double rest = kSketchError * fitted->residual * size_of(parts.momentum);  // a part below it may be it
  return GroupUpdate::Momentum{
      .keep = {recipe.keep, first ? recipe.keep : fitted->coefficients[2], kRoundoff},
      .take = {take, fitted->coefficients[0], rounding / size_of(parts.gradient)},
      .decay = {take * recipe.decay, fitted->coefficients[1], (rounding + rest) / size_of(parts.weights)},
      .residual = fitted->residual};
}

std::optional<GroupUpdate::Change> change_of(const Parts& parts, const Recipe& recipe, double rate) {
  if (!recipe.sgd || is_zero(parts.change)) return std::nullopt;
  // Without Nesterov the momentum is the direction; it has the decay in it.
  const bool decays_here = recipe.keep == 0 || recipe.nesterov;
  if (recipe.keep != 0 && parts.momentum.empty()) return std::nullopt;
  const Made direction = recipe.keep == 0  ? parts.gradient
                         : recipe.nesterov ? sum(parts.gradient, recipe.keep, parts.momentum)
                                           : parts.momentum;
  const auto fitted = fit(parts.change, {&direction, &parts.weights});
  if (!fitted) return std::nullopt;
  const double rounding = kRoundoff * size_of(parts.weights);
  const double rest = kSketchError * fitted->residual * size_of(parts.change);
  return GroupUpdate::Change{.step = {rate, fitted->coefficients[0], rounding / size_of(direction)},
                             .decay = {decays_here ? rate * recipe.decay : 0, fitted->coefficients[1],
                                       kRoundoff + rest / size_of(parts.weights)},
                             .residual = fitted->residual,
                             .rounding = rounding / size_of(parts.change)};
}

std::string rate_name(std::size_t group) {
  return "learning_rate" + (group > 0 ? "." + std::to_string(group) : std::string());
}

}  // namespace

bool Coefficient::is(double value) const {
  return std::fabs(found - value) <= kSameWeight * std::fabs(value) + rounding;
}

bool Coefficient::holds() const { return is(promised); }

std::vector<GroupUpdate> updates_of(const trace::RunTrace& run, const scenario::Promises& promises, std::size_t rank,
                                    std::int64_t step) {
  const Held before(run, rank, step - 1), now(run, rank, step);
  const auto groups = recipe::parameter_groups(promises.train.optimizer);
  std::vector<GroupUpdate> updates;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const Recipe recipe = recipe_of(promises.train.optimizer.kind, groups[group].options);
    const double rate = number_at(now, Channel::kLedger, rate_name(group));
    const Parts parts = parts_of(before, now, recipe.state,
                                 [&](const std::string& name) { return recipe::group_of(groups, name) == group; });
    if (parts.gradient.empty() || !std::isfinite(rate)) continue;
    const double rate_before = number_at(before, Channel::kLedger, rate_name(group));
    updates.push_back({.rate = rate,
                       .rate_before = std::isfinite(rate_before) ? rate_before : 0,
                       .momentum = momentum_of(parts, recipe),
                       .change = change_of(parts, recipe, rate)});
  }
  return updates;
}

}  // namespace lockstep::laws
