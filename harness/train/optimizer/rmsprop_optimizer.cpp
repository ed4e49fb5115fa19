#include <ATen/ATen.h>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.rmsprop._single_tensor_rmsprop, PyTorch 2.11.
class RmsProp : public UpdateRule {
 public:
  explicit RmsProp(const Json& options)
      : alpha_(options.at("alpha").get<double>()),
        eps_(options.at("eps").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()),
        momentum_(options.at("momentum").get<double>()),
        centered_(options.at("centered").get<bool>()) {}

  void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state, double learning_rate) const override {
    count_step(state);
    if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
    zeros_at_first(state, "square_avg", parameter).mul_(alpha_).addcmul_(gradient, gradient, 1 - alpha_);
    at::Tensor average;
    if (centered_) {
      const at::Tensor mean = zeros_at_first(state, "grad_avg", parameter).lerp_(gradient, 1 - alpha_);
      average = square_root(state["square_avg"].addcmul(mean, mean, -1));
    } else {
      average = square_root(state["square_avg"]);
    }
    average.add_(eps_);
    if (momentum_ > 0) {
      at::Tensor& buffer = zeros_at_first(state, "momentum_buffer", parameter);
      buffer.mul_(momentum_).addcdiv_(gradient, average);
      parameter.add_(buffer, -learning_rate);
    } else {
      parameter.addcdiv_(gradient, average, -learning_rate);
    }
  }

  std::vector<std::string> states() const override { return {"step", "square_avg", "grad_avg", "momentum_buffer"}; }

 private:
  double alpha_, eps_, weight_decay_, momentum_;
  bool centered_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_rmsprop_optimizer(const Json& options) { return std::make_unique<RmsProp>(options); }

}  // namespace lockstep::train
