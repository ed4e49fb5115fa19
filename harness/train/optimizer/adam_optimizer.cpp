#include <cmath>

#include <ATen/ATen.h>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// Adam, and AdamW where weight decay acts on the weights instead of the gradients.
/// *Source*: torch.optim.adam._single_tensor_adam, PyTorch 2.11. torch::optim::Adam computes other bits.
class Adam : public UpdateRule {
 public:
  Adam(const Json& options, bool decoupled_weight_decay)
      : beta1_(options.at("betas")[0].get<double>()),
        beta2_(options.at("betas")[1].get<double>()),
        eps_(options.at("eps").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()),
        amsgrad_(options.at("amsgrad").get<bool>()),
        fused_(options.at("fused").get<bool>()),
        decoupled_weight_decay_(decoupled_weight_decay) {}

  void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state, double learning_rate) const override {
    const double step = count_step(state);
    if (fused_) return update_fused(parameter, gradient, state, learning_rate);
    if (weight_decay_ != 0) {
      if (decoupled_weight_decay_) {
        parameter.mul_(1 - learning_rate * weight_decay_);
      } else {
        gradient = gradient.add(parameter, weight_decay_);
      }
    }
    zeros_at_first(state, "exp_avg", parameter).lerp_(gradient, 1 - beta1_);
    zeros_at_first(state, "exp_avg_sq", parameter).mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
    at::Tensor second = state["exp_avg_sq"];
    if (amsgrad_) {
      at::Tensor& largest = zeros_at_first(state, "max_exp_avg_sq", parameter);
      at::maximum_out(largest, largest, second);
      second = largest;
    }
    const double step_size = learning_rate / (1 - std::pow(beta1_, step));
    // Python writes ** 0.5; sqrt gives another last bit in one step of a hundred.
    const double correction = std::pow(1 - std::pow(beta2_, step), 0.5);
    const at::Tensor denominator = (square_root(second) / correction).add_(eps_);
    parameter.addcdiv_(state["exp_avg"], denominator, -step_size);
  }

  std::vector<std::string> states() const override { return {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}; }

 private:
  /// *Source*: torch.optim.adam._fused_adam, PyTorch 2.11.
  void update_fused(at::Tensor& parameter, const at::Tensor& gradient, ParameterState& state, double rate) const {
    const at::Tensor first = zeros_at_first(state, "exp_avg", parameter);
    const at::Tensor second = zeros_at_first(state, "exp_avg_sq", parameter);
    std::vector<at::Tensor> largest;
    if (amsgrad_) largest = {zeros_at_first(state, "max_exp_avg_sq", parameter)};
    const at::Tensor step = state["step"].to(parameter.device());
    const auto fused = [](auto&&... arguments) { at::_fused_adam_(arguments...); };
    const auto fused_decoupled = [](auto&&... arguments) { at::_fused_adamw_(arguments...); };
    const auto with = [&](const auto& kernel) {
      kernel(at::TensorList(parameter), at::TensorList(gradient), at::TensorList(first), at::TensorList(second),
             at::TensorList(largest), at::TensorList(step), rate, beta1_, beta2_, weight_decay_, eps_, amsgrad_,
             /*maximize=*/false);
    };
    decoupled_weight_decay_ ? with(fused_decoupled) : with(fused);
  }

  double beta1_, beta2_, eps_, weight_decay_;
  bool amsgrad_, fused_, decoupled_weight_decay_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adam_optimizer(const Json& options) { return std::make_unique<Adam>(options, false); }

std::unique_ptr<UpdateRule> make_adamw_optimizer(const Json& options) { return std::make_unique<Adam>(options, true); }

}  // namespace lockstep::train
