#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/laws/held.h"
#include "harness/laws/hyperparameters.h"
#include "harness/laws/law.h"
#include "harness/recipe/optimizer_rule.h"

/// The update of one parameter, from the records before and after it.
namespace lockstep::laws {

using recipe::Element;
using recipe::ElementRule;
using recipe::Mistake;
using recipe::Rounded;

/// One parameter in one step of one rank. A record that is missing is null.
struct Updated {
  const Hyperparameters& optimizer;
  double rate = 0;
  const trace::Record *gradient = nullptr, *weight_before = nullptr, *weight = nullptr;
  const Held &before, &now;
  std::string name;

  const Json& options() const { return optimizer.options; }
  const trace::Record* state_before(const std::string& state) const;
  const trace::Record* state(const std::string& state) const;
};

/// State of an optimizer that is linear in gradient and weight: "momentum_buffer"; empty if it has none.
std::string linear_state(const Hyperparameters& optimizer);

/// Sampled elements of an update, with the weights after it.
struct Sampled {
  std::vector<Element> elements;
  std::vector<double> weights;
};

/// Nothing where no elements are recorded, or the optimizer's arithmetic is none of float32 and float64.
Sampled sampled_of(const Updated& of);

/// So many roundings more than the formula's may a kernel make that adds and divides in another order.
inline constexpr double kOtherOrder = 4;

/// Calls `visit` with every parameter that a recorded step updates, until it returns false. Steps whose previous step
/// is not recorded, skipped updates, and gradients that are not finite are left out; ranks that update as rank 0 does
/// count as it does.
void for_each_update(const trace::RunTrace& run, Optimizers& optimizers, Outcome& outcome,
                     const std::function<bool(const RecordPlace&, const Updated&)>& visit);

}  // namespace lockstep::laws
