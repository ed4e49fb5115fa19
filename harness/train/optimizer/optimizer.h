#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// A tensor and its name in traces and checkpoints.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// State tensors of one parameter, in the order of their first use.
class ParameterState {
 public:
  /// The state of this name; undefined until it is assigned. *Lifetime*: until another name is looked up.
  at::Tensor& operator[](const std::string& name);

  const std::vector<NamedTensor>& all() const { return tensors_; }

 private:
  std::vector<NamedTensor> tensors_;
};

/// Update of one parameter by an optimizer, in the operation order of Python's single-tensor path.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// One update. `gradient` may be rebound, never written. *Units*: `learning_rate` in float64, as in Python.
  virtual void update(at::Tensor& parameter, at::Tensor gradient, ParameterState& state,
                      double learning_rate) const = 0;

  /// Names of the state tensors. Each has its parameter's shape, except the scalar "step".
  virtual std::vector<std::string> states() const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_optimizer` in optimizer/<kind>.cpp.
std::unique_ptr<UpdateRule> make_update_rule(recipe::OptimizerKind kind, const Json& options);

/// Increments "step", a float32 scalar as in Python, and returns it.
double count_step(ParameterState& state);

/// Square root of each element: that of Python, except in the portable profiles, where it is rounded correctly. There
/// MKL's differs from processor to processor.
at::Tensor square_root(const at::Tensor& tensor);

/// State tensor of this name. It starts as zeros in the parameter's shape.
at::Tensor& zeros_at_first(ParameterState& state, const std::string& name, const at::Tensor& parameter);

/// One parameter's part of an update.
struct ParameterUpdate {
  const std::string& name;
  const at::Tensor& parameter;
  const at::Tensor& gradient;
  ParameterState& state;
  double learning_rate = 0;
  recipe::OptimizerKind kind = recipe::OptimizerKind::kUnknown;
  const Json& options;  ///< of the parameter's group
};

/// Updates parameters from their gradients. Each parameter group has its own rule.
class Optimizer {
 public:
  Optimizer(const recipe::OptimizerChoice& choice, std::vector<NamedTensor> parameters);

  /// Updates a parameter itself, or leaves it to the rule: false.
  using Instead = std::function<bool(const ParameterUpdate&, const UpdateRule&)>;

  /// One update of every parameter that has a gradient. *Shape*: one learning rate for each group.
  void step(const std::vector<double>& learning_rates, const Instead& instead);

  /// Existing state tensors, named "<parameter>.<state>", in parameter order.
  std::vector<NamedTensor> state() const;

  /// Restores saved state by name. *Throws*: InputError for a wrong name or shape.
  void restore(const std::vector<NamedTensor>& state);

 private:
  struct Entry {
    NamedTensor parameter;
    std::size_t group = 0;
    ParameterState state;
  };

  recipe::OptimizerKind kind_;
  std::vector<recipe::ParameterGroup> groups_;
  std::vector<std::unique_ptr<UpdateRule>> rules_;  ///< by group
  std::vector<Entry> entries_;
};

}  // namespace lockstep::train
