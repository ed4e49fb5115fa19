#include "harness/train/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/device/determinism.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<UpdateRule> make_##name##_optimizer(const Json& options);
#include "kinds/optimizer.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<UpdateRule> make_update_rule(recipe::OptimizerKind kind, const Json& options) {
#define LOCKSTEP_KIND(name) \
  if (name_of(kind) == #name) return make_##name##_optimizer(options);
#include "kinds/optimizer.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no optimizer of kind " + text_of(kind)});
}

at::Tensor& ParameterState::operator[](const std::string& name) {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const NamedTensor& t) { return t.name == name; });
  return found != tensors_.end() ? found->tensor : tensors_.emplace_back(NamedTensor{name, {}}).tensor;
}

double count_step(ParameterState& state) {
  at::Tensor& step = state["step"];
  if (!step.defined()) step = at::zeros({}, at::kFloat);
  step.add_(1);
  return step.item<double>();
}

namespace {

template <typename Number>
at::Tensor roots_of(const at::Tensor& tensor) {
  const at::Tensor from = tensor.contiguous();
  at::Tensor to = at::empty_like(from);
  const Number* const begin = from.const_data_ptr<Number>();
  std::transform(begin, begin + from.numel(), to.mutable_data_ptr<Number>(), [](Number one) { return std::sqrt(one); });
  return to;
}

}  // namespace

at::Tensor square_root(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !has_compatible_mkl()) return tensor.sqrt();
  if (tensor.scalar_type() == at::kFloat) return roots_of<float>(tensor);
  if (tensor.scalar_type() == at::kDouble) return roots_of<double>(tensor);
  return tensor.sqrt();
}

at::Tensor& zeros_at_first(ParameterState& state, const std::string& name, const at::Tensor& parameter) {
  at::Tensor& tensor = state[name];
  if (!tensor.defined()) tensor = at::zeros_like(parameter);
  return tensor;
}

Optimizer::Optimizer(const recipe::OptimizerChoice& choice, std::vector<NamedTensor> parameters)
    : kind_(choice.kind), groups_(recipe::parameter_groups(choice)) {
  for (const recipe::ParameterGroup& group : groups_) rules_.push_back(make_update_rule(choice.kind, group.options));
  for (NamedTensor& parameter : parameters) {
    const std::size_t group = recipe::group_of(groups_, parameter.name);
    entries_.push_back({.parameter = std::move(parameter), .group = group, .state = {}});
  }
}

void Optimizer::step(const std::vector<double>& learning_rates, const Instead& instead) {
  LOCKSTEP_CHECK(learning_rates.size() == rules_.size());
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    at::Tensor& parameter = entry.parameter.tensor;
    if (!parameter.grad().defined()) continue;
    const UpdateRule& rule = *rules_[entry.group];
    const ParameterUpdate one{.name = entry.parameter.name,
                              .parameter = parameter,
                              .gradient = parameter.grad(),
                              .state = entry.state,
                              .learning_rate = learning_rates[entry.group],
                              .kind = kind_,
                              .options = groups_[entry.group].options};
    if (!instead(one, rule)) rule.update(parameter, one.gradient, one.state, one.learning_rate);
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> result;
  for (const Entry& entry : entries_) {
    for (const NamedTensor& state : entry.state.all())
      result.push_back({entry.parameter.name + "." + state.name, state.tensor});
  }
  return result;
}

void Optimizer::restore(const std::vector<NamedTensor>& saved) {
  for (const NamedTensor& one : saved) {
    const std::size_t dot = std::min(one.name.rfind('.'), one.name.size());
    const std::string parameter = one.name.substr(0, dot);
    const std::string name = dot < one.name.size() ? one.name.substr(dot + 1) : "";
    const auto entry =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.parameter.name == parameter; });
    bool fits = false;
    if (entry != entries_.end()) {
      const std::vector<std::string> names = rules_[entry->group]->states();
      const at::IntArrayRef shape = name == "step" ? at::IntArrayRef{} : entry->parameter.tensor.sizes();
      fits = std::find(names.begin(), names.end(), name) != names.end() && one.tensor.sizes() == shape;
    }
    if (!fits)
      throw InputError({.what = "the checkpoint's optimizer state does not fit the model", .actual = one.name});
    // The count of updates stays on the host, as in Python.
    const at::Device place = name == "step" ? at::kCPU : entry->parameter.tensor.device();
    entry->state[name] = one.tensor.to(place, one.tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  }
}

}  // namespace lockstep::train
