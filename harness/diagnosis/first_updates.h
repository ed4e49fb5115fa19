#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/restart.h"

/// What is wrong with a training that loaded all it shows, from its first update on.
namespace lockstep::diagnosis {

/// Where it goes on in the data. Empty where its first samples are the straight run's, or fit nothing.
std::vector<compare::Suspect> suspects_in_position(const Restart& restart);

/// Its learning rates and counters at a step: those of the beginning, or of one update before or after.
std::vector<compare::Suspect> suspects_in_counters(const Restart& restart, std::int64_t step);

/// Its first reduction: the same gradients, added in another order.
std::vector<compare::Suspect> suspects_in_first_reduction(const Restart& restart);

/// A run that ends too early, because an epoch had no batch.
std::vector<compare::Suspect> suspects_in_length(const Restart& restart);

}  // namespace lockstep::diagnosis
