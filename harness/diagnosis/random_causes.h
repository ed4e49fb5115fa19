#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Numbers that a Mersenne Twister makes at once, and that a loader takes for its seed at most.
inline constexpr std::int64_t kBlock = 624, kFewNumbers = 8;

/// Causes of different generator states and of non-reproducible results, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_random(const Scene& scene);

}  // namespace lockstep::diagnosis
