#pragma once

#include <string>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Two programs whose schedules were stepped differently often when their rates part, where their recorders counted the
/// steps. `rate`: the rates' entry in the ledger. Empty where one count has two rates: the schedules are not the same.
std::vector<compare::Suspect> suspects_in_schedule_steps(const Scene& scene, const std::string& rate);

}  // namespace lockstep::diagnosis
