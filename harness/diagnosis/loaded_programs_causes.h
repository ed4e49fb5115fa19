#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// A program that read a checkpoint before its first update: alone, or beside one that read the same file. Other than
/// our own worker's, it counts its updates from 0 again.
std::vector<compare::Suspect> suspects_in_loaded_programs(const Scene& scene);

}  // namespace lockstep::diagnosis
