#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Two programs whose optimizers have different hyperparameters, or whose models are in different modes, as their
/// ledgers tell. Rates are left to the diagnosis of rates.
std::vector<compare::Suspect> suspects_in_hyperparameters(const Scene& scene);

}  // namespace lockstep::diagnosis
