#include <ATen/ATen.h>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.sgd._single_tensor_sgd, PyTorch 2.11.
class Sgd : public UpdateRule {
 public:
  explicit Sgd(const Json& options)
      : momentum_(options.at("momentum").get<double>()),
        dampening_(options.at("dampening").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()),
        nesterov_(options.at("nesterov").get<bool>()) {}

  void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state, double learning_rate) const override {
    if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
    if (momentum_ != 0) {
      at::Tensor& buffer = state["momentum_buffer"];
      if (buffer.defined()) {
        buffer.mul_(momentum_).add_(gradient, 1 - dampening_);
      } else {
        buffer = gradient.clone().detach();
      }
      gradient = nesterov_ ? gradient.add(buffer, momentum_) : buffer;
    }
    parameter.add_(gradient, -learning_rate);
  }

  std::vector<std::string> states() const override { return {"momentum_buffer"}; }

 private:
  double momentum_, dampening_, weight_decay_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_sgd_optimizer(const Json& options) { return std::make_unique<Sgd>(options); }

}  // namespace lockstep::train
