#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/safetensors.h"

namespace lockstep::compare {

/// Whether a reduced gradient is the mean or the sum of the ranks' own ones: in every element, within the bound on the
/// order of float32 sums. Nothing where the tensors are not float32 of one shape.
/// *Source*: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.2.
std::optional<bool> is_reduction_of(const std::vector<trace::StoredTensor>& own, const trace::StoredTensor& reduced);

/// Numbers that went through 16 bits on their way into a reduced gradient.
struct Detour {
  trace::DType through = trace::DType::kBFloat16;
  std::vector<std::size_t> ranks;  ///< whose numbers

  /// "those of rank 1 rounded to bfloat16".
  std::string text() const;
};

/// Whether a reduced gradient is the mean or the sum of the ranks' own ones with those of one rank, or of all, rounded
/// to 16 bits: in every element, within the bound on the order of float32 sums. Nothing where the mean or the sum
/// itself is as near, or the tensors are not float32 of one shape.
std::optional<Detour> detour_of(const std::vector<trace::StoredTensor>& own, const trace::StoredTensor& reduced);

}  // namespace lockstep::compare
