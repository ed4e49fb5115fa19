#include <cmath>

#include <ATen/ATen.h>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// Adam's direction plus weight decay, scaled for each parameter by ‖weights‖ / ‖direction‖ (1 where either is 0).
/// *Source*: You et al., "Large Batch Optimization for Deep Learning", ICLR 2020, algorithm 2, with bias correction.
class Lamb : public UpdateRule {
 public:
  explicit Lamb(const Json& options)
      : beta1_(options.at("betas")[0].get<double>()),
        beta2_(options.at("betas")[1].get<double>()),
        eps_(options.at("eps").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()) {}

  void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state, double learning_rate) const override {
    const double step = count_step(state);
    zeros_at_first(state, "exp_avg", parameter).lerp_(gradient, 1 - beta1_);
    zeros_at_first(state, "exp_avg_sq", parameter).mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
    const at::Tensor mean = state["exp_avg"] / (1 - std::pow(beta1_, step));
    const at::Tensor square = state["exp_avg_sq"] / (1 - std::pow(beta2_, step));
    at::Tensor direction = mean / square_root(square).add_(eps_);
    if (weight_decay_ != 0) direction = direction.add(parameter, weight_decay_);
    const double weight_norm = at::linalg_vector_norm(parameter).item<double>();
    const double direction_norm = at::linalg_vector_norm(direction).item<double>();
    const double trust = weight_norm > 0 && direction_norm > 0 ? weight_norm / direction_norm : 1;
    parameter.add_(direction, -learning_rate * trust);
  }

  std::vector<std::string> states() const override { return {"step", "exp_avg", "exp_avg_sq"}; }

 private:
  double beta1_, beta2_, eps_, weight_decay_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_lamb_optimizer(const Json& options) { return std::make_unique<Lamb>(options); }

}  // namespace lockstep::train
