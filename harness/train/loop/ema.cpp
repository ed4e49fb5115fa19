#include "harness/train/loop/ema.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/loop/checkpoint.h"

namespace lockstep::train {

Ema::Ema(double decay, std::vector<NamedTensor> parameters) : decay_(decay), parameters_(std::move(parameters)) {}

void Ema::update() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> weights;
  for (const NamedTensor& parameter : parameters_) weights.push_back(parameter.tensor.detach());
  if (!averages_.empty()) return at::_foreach_lerp_(averages_, weights, 1 - decay_);
  for (const at::Tensor& weight : weights) averages_.push_back(weight.clone());
}

std::vector<NamedTensor> Ema::state() const {
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < averages_.size(); ++i) state.push_back({parameters_[i].name, averages_[i]});
  return state;
}

void Ema::restore(const std::vector<NamedTensor>& state) {
  if (state.empty()) {
    throw InputError({.what = "the checkpoint holds no averaged weights",
                      .where = "train.checkpoint.load",
                      .next = "load from a training that averages, or leave 'ema' out of restore"});
  }
  averages_.clear();
  for (const NamedTensor& parameter : parameters_) {
    if (std::none_of(state.begin(), state.end(), [&](const NamedTensor& one) { return one.name == parameter.name; }))
      throw InputError({.what = "the checkpoint's averaged weights belong to another model",
                        .where = "train.checkpoint.load",
                        .expected = "an average of " + parameter.name,
                        .next = "load into a training with the same model, or leave 'ema' out of restore"});
    averages_.push_back(at::empty_like(parameter.tensor));
  }
  copy_weights(state, this->state());
}

}  // namespace lockstep::train
