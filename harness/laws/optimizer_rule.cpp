#include "harness/laws/optimizer_rule.h"

#include <cmath>

namespace lockstep::laws {

using trace::Channel;

std::string linear_state(const std::string& kind, const Json& options) {
  if (kind == "sgd") return options.value("momentum", 0.0) != 0 ? "momentum_buffer" : "";
  if (kind == "rmsprop") return options.value("centered", false) ? "grad_avg" : "";
  return options.contains("betas") ? "exp_avg" : "";
}

std::string unknown_hyperparameters(const scenario::Promises& promises) {
  if (!promises.knows("optimizer")) return "nobody promises the optimizer of this program";
  const auto& load = promises.train.checkpoint.load;
  if (load && load->restores("optimizer")) return "the hyperparameters come with a checkpoint";
  if (!promises.train.checkpoint.follow.empty()) return "each update begins in the state of another training";
  if (promises.train.exact) return "weights are rounded after each update, for exact arithmetic";
  return "";
}

void for_each_update(const trace::RunTrace& run, const scenario::Promises& promises,
                     const std::function<bool(const RecordPlace&, const Updated&)>& visit) {
  const scenario::Choice& optimizer = promises.train.optimizer;
  const auto groups = scenario::parameter_groups(optimizer);
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& now) {
    const Held before(run, static_cast<std::size_t>(rank), step - 1);
    const auto gradients = final_gradients(now);
    if (before.empty() || !std::isfinite(total_norm(gradients))) return true;
    for (const auto& [name, gradient] : gradients) {
      const std::size_t group = scenario::group_of(groups, name);
      const std::string state = linear_state(optimizer.kind, groups[group].options);
      const Updated updated{

          .options = groups[group].options,
          .rate = number_at(now, Channel::kLedger, "learning_rate" + (group > 0 ? "." + std::to_string(group) : "")),
          .gradient = gradient,
          .weight_before = before.find(Channel::kWeight, name),
          .weight = now.find(Channel::kWeight, name),
          .state_before = before.find(Channel::kOptimizer, name + "." + state),
          .state = now.find(Channel::kOptimizer, name + "." + state)};
      if (!visit({.step = step, .rank = rank}, updated)) return false;
    }
    return true;
  });
}

}  // namespace lockstep::laws
