#include <cmath>

#include <ATen/ATen.h>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.adamax._single_tensor_adamax, PyTorch 2.11.
class Adamax : public UpdateRule {
 public:
  explicit Adamax(const Json& options)
      : beta1_(options.at("betas")[0].get<double>()),
        beta2_(options.at("betas")[1].get<double>()),
        eps_(options.at("eps").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()) {}

  void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state, double learning_rate) const override {
    const double steps = count_step(state);
    if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
    const at::Tensor average = zeros_at_first(state, "exp_avg", parameter).lerp_(gradient, 1 - beta1_);
    at::Tensor largest = zeros_at_first(state, "exp_inf", parameter).mul_(beta2_);
    at::maximum_out(largest, largest, gradient.abs().add_(eps_));
    parameter.addcdiv_(average, largest, -(learning_rate / (1 - std::pow(beta1_, steps))));
  }

  std::vector<std::string> states() const override { return {"step", "exp_avg", "exp_inf"}; }

 private:
  double beta1_, beta2_, eps_, weight_decay_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adamax_optimizer(const Json& options) { return std::make_unique<Adamax>(options); }

}  // namespace lockstep::train
