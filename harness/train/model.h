#pragma once

#include <memory>

#include <torch/nn/module.h>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// What a model must take and give.
struct DataShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t classes = 2;
};

/// A classifier. Parameters are those of torch::nn::Module, in registration order.
class Model : public torch::nn::Module {
 public:
  /// *Shape*: [batch, channels, height, width] float32 → logits [batch, classes].
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

/// Builds a model; initial weights are drawn from the default generator as Python's modules draw them.
/// Dispatches on the kinds of the schema: each is `make_<kind>_model` in model/<kind>.cpp.
std::shared_ptr<Model> make_model(const scenario::Choice& choice, const DataShape& shape);

}  // namespace lockstep::train
