#include "harness/laws/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/laws/seen_facts.h"
#include "harness/recipe/optimizer_rule.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

std::string suffix_of(std::size_t group) { return group > 0 ? "." + std::to_string(group) : ""; }

/// Why a recipe's hyperparameters are not those of its updates; empty: they are.
std::string other_than_recipe(const scenario::Promises& promises) {
  const auto& load = promises.train.checkpoint.load;
  if (load && load->restores("optimizer") && !promises.loaded_optimizer)
    return "the hyperparameters come with a checkpoint";
  if (load && load->restores("optimizer") && load->who == recipe::LoadWho::kRank0)
    return "only rank 0 loads its hyperparameters";
  if (!promises.train.checkpoint.follow.empty()) return "each update begins in the state of another training";
  if (promises.train.exact) return "weights are rounded after each update, for exact arithmetic";
  return "";
}

/// Hyperparameters that change after the first update, as OneCycleLR cycles the momentum.
std::set<std::string> names_that_move(const trace::RunTrace& run) {
  std::set<std::string> names;
  for (const trace::Step& step : run.ranks[0].steps) {
    if (step.step <= std::max<std::int64_t>(run.ranks[0].steps.front().step, 0)) continue;
    for (const trace::Record& record : step.records) {
      if (record.channel == Channel::kLedger && !record.name.starts_with("seen.")) names.insert(record.name);
    }
  }
  return names;
}

}  // namespace

Optimizers::Optimizers(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.knows("optimizer")) {
    unknown_ = other_than_recipe(promises);
    take_recipe(promises);
    if (promises.known) moved_ = names_that_move(run);
    return;
  }
  take_seen(seen_of(run, "optimizer"), seen_of(run, "grad_scaler") == Json(true));
  if (groups_.empty() && unknown_.empty()) unknown_ = "this program's optimizer is neither promised nor recorded";
}

void Optimizers::take_recipe(const scenario::Promises& promises) {
  const recipe::OptimizerChoice& optimizer =
      promises.loaded_optimizer ? *promises.loaded_optimizer : promises.train.optimizer;
  by_pattern_ = recipe::parameter_groups(optimizer);
  for (std::size_t i = 0; i < by_pattern_->size(); ++i)
    groups_.push_back(
        {.holds = {optimizer.kind, text_of(optimizer.kind), (*by_pattern_)[i].options, "learning_rate" + suffix_of(i)},
         .prefix = "",
         .suffix = suffix_of(i)});
}

void Optimizers::take_seen(const Json& optimizers, bool scales) {
  if (!optimizers.is_array()) return;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const Json& optimizer = optimizers[i];
    const Json seen = optimizer.is_object() ? optimizer.value("groups", Json()) : Json();
    if (!seen.is_array()) continue;
    const std::string prefix = optimizers.size() > 1 ? "optimizer" + std::to_string(i) + "." : "";
    for (std::size_t j = 0; j < seen.size(); ++j) {
      if (!seen[j].is_object()) continue;
      if (scales && seen[j].value("fused", Json()) == Json(true))
        unknown_ = "the fused optimizer unscales gradients itself: the unscaled ones are not recorded";
      const std::string kind = optimizer.value("kind", "");
      groups_.push_back({.holds = {recipe::named<recipe::OptimizerKind>(kind), kind, seen[j],
                                   prefix + "learning_rate" + suffix_of(j)},
                         .prefix = prefix,
                         .suffix = suffix_of(j)});
      const Json names = seen[j].value("parameters", Json::array());
      for (const Json& name : names.is_array() ? names : Json::array()) {
        if (name.is_string()) group_of_[name.get<std::string>()] = groups_.size() - 1;
      }
    }
  }
}

void Optimizers::go_to(const Held& now) {
  if (by_pattern_ && moved_.empty()) return;
  for (Group& group : groups_) {
    const auto take = [&](const std::string& name, Json& option) {
      // A promise holds where nothing moves: a value that was wrong from the first is a breach.
      if (by_pattern_ && !moved_.contains(group.prefix + name + group.suffix)) return;
      const double value = number_at(now, Channel::kLedger, group.prefix + name + group.suffix);
      if (std::isnan(value)) return;
      option = option.is_boolean() ? Json(value != 0) : Json(value);
    };
    for (auto& [name, option] : group.holds.options.items()) {
      if (option.is_array()) {
        for (std::size_t i = 0; i < option.size(); ++i) take(name + "." + std::to_string(i), option[i]);
      } else if (option.is_number() || option.is_boolean()) {
        take(name, option);
      }
    }
  }
}

const Hyperparameters* Optimizers::of(const std::string& parameter) const {
  if (by_pattern_) return &groups_[recipe::group_of(*by_pattern_, parameter)].holds;
  const auto found = group_of_.find(parameter);
  return found == group_of_.end() ? nullptr : &groups_[found->second].holds;
}

bool Optimizers::have_state() const {
  return groups_.empty() || std::any_of(groups_.begin(), groups_.end(), [](const Group& group) {
           return group.holds.kind == recipe::OptimizerKind::kUnknown ||
                  !recipe::kept_states(group.holds.kind, group.holds.options).empty();
         });
}

std::string Optimizers::without_formula() const {
  for (const Group& group : groups_) {
    if (recipe::traits_of(group.holds.kind).form == recipe::UpdateForm::kUnknown) return group.holds.name;
  }
  return "";
}

}  // namespace lockstep::laws
