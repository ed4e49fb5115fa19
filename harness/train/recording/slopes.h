#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "harness/train/model/model.h"

namespace lockstep::train {

/// Slope of a loss when one parameter moves along the signs of its sketch, as the loss alone tells it.
struct Slope {
  double slope = 0;
  double error = 0;     ///< of the slope: curvature, kinks and rounding
  double rounding = 0;  ///< ‖gradient in the training's dtype − gradient in float64‖, both by backward passes

  Slope& operator+=(const Slope& other);
};

/// Two copies of a model, in float64 and in the training's dtype, whose weights may be moved.
struct Copies {
  std::shared_ptr<Model> exact, rounded;
};

/// Slopes of some parameters, by their place in the model. `loss`: of either copy; each call must compute the same
/// function.
///
/// A sketch's buckets add up to ⟨gradient, s⟩ for fixed signs s (harness/trace/format.md), which is the derivative of
/// the loss along s. Central differences of two widths are extrapolated; where they part, or the second differences
/// show a kink, the error says so. Weights are as before afterwards.
std::map<std::size_t, Slope> slopes_of(const Copies& copies, const std::function<at::Tensor(Model&)>& loss,
                                       double loss_scale, const std::set<std::size_t>& parameters);

/// Σ sign · element in float64, by the signs of a sketch.
double along_signs(const at::Tensor& tensor);

}  // namespace lockstep::train
