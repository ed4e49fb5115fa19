#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/safetensors.h"

namespace lockstep::compare {

/// Whether a reduced gradient is the mean or the sum of the ranks' own gradients. Every element must agree within the
/// rounding bound of float32 sums in any order. Nothing if the tensors are not float32 of one shape.
/// *Source*: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.2.
std::optional<bool> is_reduction_of(const std::vector<trace::StoredTensor>& own, const trace::StoredTensor& reduced);

/// Gradients that were rounded to 16 bits before the reduction.
struct Detour {
  trace::DType through = trace::DType::kBFloat16;
  std::vector<std::size_t> ranks;  ///< whose gradients

  /// "those of rank 1 rounded to bfloat16".
  std::string text() const;
};

/// Finds 16-bit rounding before a reduction: the reduced gradient is the mean or sum of the ranks' own gradients after
/// one rank's, or all, were rounded to 16 bits. Every element must agree within the rounding bound of float32 sums.
/// Nothing if the unrounded gradients fit as well, or if the tensors are not float32 of one shape.
std::optional<Detour> detour_of(const std::vector<trace::StoredTensor>& own, const trace::StoredTensor& reduced);

}  // namespace lockstep::compare
