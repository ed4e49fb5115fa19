#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {
namespace {

constexpr const char* kMomentumBuffer = ".momentum_buffer";

/// *Source*: torch.optim.sgd._single_tensor_sgd, PyTorch 2.11.
class Sgd : public Optimizer {
 public:
  Sgd(const Json& options, const std::vector<NamedTensor>& parameters)
      : momentum_(options.at("momentum").get<double>()),
        dampening_(options.at("dampening").get<double>()),
        weight_decay_(options.at("weight_decay").get<double>()),
        nesterov_(options.at("nesterov").get<bool>()),
        parameters_(parameters),
        buffers_(parameters.size()) {}

  void step(double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& parameter = parameters_[i].tensor;
      at::Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
      if (momentum_ != 0) {
        at::Tensor& buffer = buffers_[i];
        if (buffer.defined()) {
          buffer.mul_(momentum_).add_(gradient, 1 - dampening_);
        } else {
          buffer = gradient.clone().detach();
        }
        gradient = nesterov_ ? gradient.add(buffer, momentum_) : buffer;
      }
      parameter.add_(gradient, -learning_rate);
    }
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> result;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (buffers_[i].defined()) result.push_back({parameters_[i].name + kMomentumBuffer, buffers_[i]});
    }
    return result;
  }

  void restore(const std::vector<NamedTensor>& state) override {
    for (const NamedTensor& saved : state) {
      bool found = false;
      for (std::size_t i = 0; i < parameters_.size() && !found; ++i) {
        found = saved.name == parameters_[i].name + kMomentumBuffer &&
                saved.tensor.sizes() == parameters_[i].tensor.sizes();
        if (found) buffers_[i] = saved.tensor.clone();
      }
      if (!found)
        throw DamagedFile({.what = "the checkpoint's optimizer state does not fit the model", .actual = saved.name});
    }
  }

 private:
  double momentum_, dampening_, weight_decay_;
  bool nesterov_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd_optimizer(const Json& options, const std::vector<NamedTensor>& parameters) {
  return std::make_unique<Sgd>(options, parameters);
}

}  // namespace lockstep::train
