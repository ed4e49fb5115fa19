#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// A tensor and the name under which traces and checkpoints know it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Updates parameters from their gradients, in the operation order of Python's single-tensor path.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update of every parameter that has a gradient. *Units*: `learning_rate` in float64, as in Python.
  virtual void step(double learning_rate) = 0;

  /// State tensors that exist so far, "<parameter>.<state>", in parameter order.
  virtual std::vector<NamedTensor> state() const = 0;

  /// Takes over saved state by name. *Throws*: DamagedFile for a name or shape that does not belong.
  virtual void restore(const std::vector<NamedTensor>& state) = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_optimizer` in optimizer/<kind>.cpp.
std::unique_ptr<Optimizer> make_optimizer(const scenario::Choice& choice, const std::vector<NamedTensor>& parameters);

}  // namespace lockstep::train
