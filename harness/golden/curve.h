#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::golden {

/// Loss, norm of the gradient and learning rate of a step, as far as they are recorded: " loss 2.3 gradient 0.1 rate
/// 0.1".
std::string curve_at(const trace::RunTrace& run, std::int64_t step);

/// Mean loss of all ranks and micro-batches in a step; nothing where none is recorded.
std::optional<double> mean_loss(const trace::RunTrace& run, std::int64_t step);

/// Mean loss of all ranks in each step that records one.
std::vector<double> losses_of(const trace::RunTrace& run);

/// Numbers as a row of bars, from the least to the largest, with both: "▁▃▇  2.28 … 2.33".
std::string bars_of(const std::vector<double>& numbers);

}  // namespace lockstep::golden
