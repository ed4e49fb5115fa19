#include "harness/train/recording/slopes.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "harness/train/device/split_mix.h"

namespace lockstep::train {
namespace {

/// Wide enough that float64 hides no slope, narrow enough that hardly a ReLU turns on the way.
constexpr double kWidth = 0x1p-20;

/// Relative rounding of a loss in float64: sums of many terms. A log-softmax rounds as a number of at least 1 does: it
/// adds exp(0) up, beside which the other exponentials vanish where the loss is zero and its gradients are not.
constexpr double kLossError = 0x1p-48;

/// The signs of a sketch. *Shape*: as `like`, float64.
at::Tensor signs(const at::Tensor& like) {
  constexpr std::int64_t kBlock = 64;
  at::Tensor signs = at::empty({like.numel()}, at::kDouble);
  auto* sign = signs.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < like.numel(); ++i)
    sign[i] = (split_mix(static_cast<std::uint64_t>(i / kBlock)) >> (i % kBlock) & 1) != 0 ? -1 : 1;
  return signs.view(like.sizes()).to(like.device());
}

std::vector<at::Tensor> gradients(Model& model, const std::function<at::Tensor(Model&)>& loss, double scale) {
  (loss(model) * scale).backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor& gradient = parameter.grad();
    all.push_back(gradient.defined() ? gradient.to(at::kDouble) / scale : at::zeros_like(parameter, at::kDouble));
    parameter.mutable_grad().reset();
  }
  return all;
}

/// The loss beside a point.
struct Around {
  double plus = 0, minus = 0;
};

}  // namespace

double along_signs(const at::Tensor& tensor) { return (tensor.to(at::kDouble) * signs(tensor)).sum().item<double>(); }

Slope& Slope::operator+=(const Slope& other) {
  slope += other.slope;
  error += other.error;
  rounding += other.rounding;
  return *this;
}

std::map<std::size_t, Slope> slopes_of(const Copies& copies, const std::function<at::Tensor(Model&)>& loss,
                                       double loss_scale, const std::set<std::size_t>& parameters) {
  const std::vector<at::Tensor> exact = gradients(*copies.exact, loss, 1);
  const std::vector<at::Tensor> rounded = gradients(*copies.rounded, loss, loss_scale);
  const at::NoGradGuard no_grad;
  const auto value = [&] { return loss(*copies.exact).item<double>(); };
  const double here = value();
  std::map<std::size_t, Slope> slopes;
  for (const std::size_t i : parameters) {
    at::Tensor parameter = copies.exact->parameters()[i];
    const at::Tensor before = parameter.clone(), sign = signs(parameter);
    const auto around = [&](double width) {
      parameter.copy_(before + width * sign);
      const double plus = value();
      parameter.copy_(before - width * sign);
      const double minus = value();
      parameter.copy_(before);
      return Around{plus, minus};
    };
    const Around wide = around(kWidth), narrow = around(kWidth / 2);
    const double by_wide = (wide.plus - wide.minus) / (2 * kWidth), by_narrow = (narrow.plus - narrow.minus) / kWidth;
    const double bend_of_wide = (wide.plus - 2 * here + wide.minus) / kWidth;
    const double bend_of_narrow = (narrow.plus - 2 * here + narrow.minus) / (kWidth / 2);
    slopes[i] = {.slope = (4 * by_narrow - by_wide) / 3,
                 .error = std::fabs(by_wide - by_narrow) + std::fabs(2 * bend_of_narrow - bend_of_wide) +
                          kLossError * (1 + std::fabs(here)) / kWidth,
                 .rounding = (rounded[i] - exact[i]).norm().item<double>()};
  }
  return slopes;
}

}  // namespace lockstep::train
