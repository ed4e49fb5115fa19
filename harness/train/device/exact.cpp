#include "harness/train/device/exact.h"

#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace lockstep::train {
namespace {

constexpr double kActivationGrid = 0x1p-10, kLargestActivation = 0x1p10;
constexpr double kWeightGrid = 0x1p-16, kLargestWeight = 0x1p4;

at::Tensor on_grid(const at::Tensor& x, double grid, double largest) {
  return x.div(grid).round_().mul_(grid).clamp_(-largest, largest);
}

at::Tensor activations_on_grid(const at::Tensor& x) { return on_grid(x, kActivationGrid, kLargestActivation); }

struct Settle : torch::autograd::Function<Settle> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double unit) {
    context->saved_data["unit"] = unit;
    return activations_on_grid(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const double unit = context->saved_data["unit"].toDouble();
    return {activations_on_grid(gradients[0].div(unit)).mul_(unit), at::Tensor()};
  }
};

struct Loss : torch::autograd::Function<Loss> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels, double unit) {
    const at::Tensor logs = logits.log_softmax(-1), chosen = labels.unsqueeze(-1);
    const at::Tensor gradient = logs.exp();
    gradient.scatter_add_(-1, chosen, at::full_like(chosen, -1, logits.options()));
    context->save_for_backward({activations_on_grid(gradient).mul_(unit)});
    return activations_on_grid(logs.gather(-1, chosen)).sum().neg_().mul_(unit);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {context->get_saved_variables()[0] * gradients[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Exact::Exact(std::int64_t world_size, std::int64_t samples_of_update)
    : unit_(static_cast<double>(world_size) / std::exp2(std::ceil(std::log2(static_cast<double>(samples_of_update))))) {
}

at::Tensor Exact::input(const at::Tensor& x) { return activations_on_grid(x); }

void Exact::settle_weight(const at::Tensor& weight) {
  const torch::NoGradGuard no_grad;
  weight.copy_(on_grid(weight, kWeightGrid, kLargestWeight));
}

at::Tensor Exact::settled(const at::Tensor& activations) const { return Settle::apply(activations, unit_); }

at::Tensor Exact::loss(const at::Tensor& logits, const at::Tensor& labels) const {
  return Loss::apply(logits, labels, unit_);
}

}  // namespace lockstep::train
