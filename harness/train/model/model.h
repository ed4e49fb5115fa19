#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "harness/recipe/train_spec.h"
#include "harness/train/device/exact.h"

namespace lockstep::train {

/// Input, output and process group of a model.
struct ModelContext {
  std::vector<std::int64_t> sample;  ///< shape of one sample's input
  bool tokens = false;               ///< inputs are int64 ids below `classes`, else float32
  std::int64_t classes = 2;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  ///< for layers that reduce over all ranks

  /// Number of elements in one sample's input.
  std::int64_t features() const { return c10::multiply_integers(sample); }
};

/// A classifier. Parameters are those of torch::nn::Module, in registration order.
class Model : public torch::nn::Module {
 public:
  /// Rounds activations and their gradients to the grids of exact arithmetic from now on.
  void make_exact(const Exact& exact) { exact_ = exact; }

  /// *Shape*: [batch, sample…] → logits [batch, classes]; of tokens [batch, length] → [batch, length, classes].
  virtual at::Tensor forward(const at::Tensor& input) = 0;

 protected:
  /// Output of a layer, as the next layer gets it.
  at::Tensor settled(const at::Tensor& activations) const {
    return exact_ ? exact_->settled(activations) : activations;
  }

 private:
  std::optional<Exact> exact_;
};

/// Builds a model; initial weights are drawn from the default generator as Python's modules draw them.
/// Dispatches on the kinds of the schema: each is `make_<kind>_model` in model/<kind>.cpp.
std::shared_ptr<Model> make_model(const recipe::ModelChoice& choice, const ModelContext& context);

/// Moves parameters and buffers to this device and makes floating ones this dtype, in place.
/// *Source*: torch.nn.Module.to(device, dtype).
void convert(Model& model, at::ScalarType to, at::Device device);

/// Forward pass of Python's torch.nn.Linear. It is one operation; torch::nn::Linear has several, and autocast would
/// round between them. *Shape*: [..., inputs] → [..., outputs].
at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& input);

/// *Throws*: InputError unless samples are images [channels, height, width] of at least `smallest` pixels a side.
void require_images(const std::string& model, const ModelContext& context, std::int64_t smallest);

/// *Throws*: InputError if samples are tokens and `wanted` is false, or the other way round.
void require_tokens(const std::string& model, const ModelContext& context, bool wanted);

}  // namespace lockstep::train
