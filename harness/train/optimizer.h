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

/// One parameter's state tensors, in the order in which an update first asks for them.
class ParameterState {
 public:
  /// The state of this name; undefined until it is assigned. *Lifetime*: until the next name is asked for.
  at::Tensor& operator[](const std::string& name);

  const std::vector<NamedTensor>& all() const { return tensors_; }

 private:
  std::vector<NamedTensor> tensors_;
};

/// What an optimizer does to one parameter, in the operation order of Python's single-tensor path.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// One update. `gradient` may be rebound, never written. *Units*: `learning_rate` in float64, as in Python.
  virtual void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state,
                      double learning_rate) const = 0;

  /// Names of the state tensors: each has its parameter's shape, but "step" is a scalar.
  virtual std::vector<std::string> states() const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_optimizer` in optimizer/<kind>.cpp.
std::unique_ptr<UpdateRule> make_update_rule(const std::string& kind, const Json& options);

/// Counts the update in "step", a float32 scalar as in Python. Returns the new count.
double count_step(ParameterState& state);

/// The state of this name; zeros in the parameter's shape the first time.
at::Tensor& zeros_at_first(ParameterState& state, const std::string& name, const at::Tensor& parameter);

/// Updates parameters from their gradients. Each parameter group has a rule of its own.
class Optimizer {
 public:
  Optimizer(const scenario::Choice& choice, std::vector<NamedTensor> parameters);

  /// One update of every parameter that has a gradient. *Shape*: one learning rate for each group.
  void step(const std::vector<double>& learning_rates);

  /// State tensors that exist so far, "<parameter>.<state>", in parameter order.
  std::vector<NamedTensor> state() const;

  /// Takes over saved state by name. *Throws*: InputError for a name or shape that does not belong.
  void restore(const std::vector<NamedTensor>& state);

 private:
  struct Entry {
    NamedTensor parameter;
    std::size_t group = 0;
    ParameterState state;
  };

  std::vector<std::unique_ptr<UpdateRule>> rules_;  ///< by group
  std::vector<Entry> entries_;
};

}  // namespace lockstep::train
