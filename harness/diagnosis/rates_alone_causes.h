#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Two programs that part in the weights, where nothing but the learning rates differs. Each change of a weight is as
/// many times as large as the rate of its group.
std::vector<compare::Suspect> suspects_in_rates_alone(const Scene& scene);

}  // namespace lockstep::diagnosis
