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

/// Numbers of one step, as far as they are recorded.
struct CurvePoint {
  std::int64_t step = 0;
  std::optional<double> loss;      ///< mean of all ranks and micro-batches
  std::optional<double> gradient;  ///< L2 norm of all gradients that rank 0's optimizer gets, if each has a norm
  std::optional<double> rate;      ///< learning rate

  bool operator==(const CurvePoint&) const = default;
};

/// The steps of a run that record one of these numbers. The state before the first update is none.
std::vector<CurvePoint> points_of(const trace::RunTrace& run);

/// Mean loss of all ranks in each step that records one.
std::vector<double> losses_of(const trace::RunTrace& run);

/// Numbers as a row of bars, from the least to the largest, with both: "▁▃▇  2.28 … 2.33".
std::string bars_of(const std::vector<double>& numbers);

}  // namespace lockstep::golden
