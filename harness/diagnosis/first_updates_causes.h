#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/restart_causes.h"

/// Causes that show only from the first update of a resumed training, after a correct load.
namespace lockstep::diagnosis {

/// A wrong position in the data. Empty if the first samples are the straight run's, or fit no known mistake.
std::vector<compare::Suspect> suspects_in_position(const Restart& restart);

/// An epoch after the one in which the checkpoint was saved that lacks its first batches.
std::vector<compare::Suspect> suspects_in_later_epoch(const Restart& restart, std::int64_t step);

/// Learning rates and counters that started anew, or are off by one update.
std::vector<compare::Suspect> suspects_in_counters(const Restart& restart, std::int64_t step);

/// An average that began anew from the loaded weights, at the first update.
std::vector<compare::Suspect> suspects_in_first_average(const Restart& restart);

/// A first reduction that adds the same gradients in another order.
std::vector<compare::Suspect> suspects_in_first_reduction(const Restart& restart);

/// A run that ends early because an epoch had no batch.
std::vector<compare::Suspect> suspects_in_length(const Restart& restart);

}  // namespace lockstep::diagnosis
