#include "harness/recipe/train_spec.h"

#include <algorithm>
#include <cmath>

#include <fnmatch.h>

#include "harness/recipe/optimizer_rule.h"

namespace lockstep::recipe {
std::int64_t BatchSpec::micro_batches(std::int64_t updates, std::int64_t per_epoch) const {
  if (!updates_at_epoch_end) return updates * accumulation;
  const std::int64_t updates_per_epoch = (per_epoch + accumulation - 1) / accumulation;
  return updates / updates_per_epoch * per_epoch + updates % updates_per_epoch * accumulation;
}

bool TrainSpec::has_own_buffers() const { return ddp.wrap && ddp.broadcast_buffers && norm() == Norm::kBatch; }

bool TrainSpec::has_buffers() const { return model.options.contains("norm") || model.kind == ModelKind::kBranch; }

bool TrainSpec::keeps_optimizer_state() const {
  const std::vector<ParameterGroup> groups = parameter_groups(optimizer);
  return optimizer.kind == OptimizerKind::kUnknown ||
         std::any_of(groups.begin(), groups.end(),
                     [&](const ParameterGroup& group) { return !kept_states(optimizer.kind, group.options).empty(); });
}

std::optional<std::string> TrainSpec::coarsest_arithmetic() const {
  const bool casts = precision == Precision::kFloat32;  // autocast leaves float64 alone
  if ((casts && autocast == Autocast::kBf16) || ddp.compression == Compression::kBf16) return "bfloat16";
  // TF32 keeps as many bits of a factor as float16.
  const bool drops_bits = device == "cuda" && determinism.tf32 && precision == Precision::kFloat32;
  if ((casts && autocast == Autocast::kFp16) || ddp.compression == Compression::kFp16 || drops_bits) return "float16";
  return std::nullopt;
}

std::vector<ParameterGroup> parameter_groups(const OptimizerChoice& optimizer) {
  if (optimizer.kind == OptimizerKind::kUnknown) return {};
  Json common = optimizer.options;
  common.erase("groups");
  std::vector<ParameterGroup> groups{{.pattern = "*", .options = common}};
  for (const Json& group : optimizer.options.at("groups")) {
    Json options = common;
    options.update(group);
    options.erase("parameters");
    groups.push_back({.pattern = group.at("parameters").get<std::string>(), .options = options});
  }
  return groups;
}

std::size_t group_of(const std::vector<ParameterGroup>& groups, const std::string& parameter) {
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (fnmatch(groups[i].pattern.c_str(), parameter.c_str(), 0) == 0) return i;
  }
  return 0;
}

double rule_factor(const TrainSpec& spec, std::int64_t world_size) {
  if (spec.learning_rate_rule.kind == RateRuleKind::kNone) return 1;
  const double ratio = static_cast<double>(spec.batch.global_size(world_size)) /
                       spec.learning_rate_rule.options.at("base_batch").get<double>();
  return spec.learning_rate_rule.kind == RateRuleKind::kSqrt ? std::sqrt(ratio) : ratio;
}

double rule_warmup(const TrainSpec& spec, double factor, std::int64_t steps) {
  const auto warmup = spec.learning_rate_rule.options.value("warmup", std::int64_t{0});
  if (steps >= warmup) return 1;
  return (1 + (factor - 1) * (static_cast<double>(steps) / static_cast<double>(warmup))) / factor;
}

std::vector<double> base_learning_rates(const TrainSpec& spec, std::int64_t world_size) {
  const double factor = rule_factor(spec, world_size);
  std::vector<double> rates;
  for (const ParameterGroup& group : parameter_groups(spec.optimizer))
    rates.push_back(group.options.at("lr").get<double>() * factor);
  return rates;
}

}  // namespace lockstep::recipe
