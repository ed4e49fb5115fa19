#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/safetensors.h"

namespace lockstep::compare {

/// First element, in row-major order, in which two tensors differ, and a summary of all others that do.
struct Element {
  std::vector<std::int64_t> index;
  double left = 0;
  double right = 0;
  std::string left_bits;  ///< "0x3e800000"
  std::string right_bits;
  std::optional<std::uint64_t> ulps;  ///< distance of the two; nothing for NaN and integers
  std::size_t unequal = 0;            ///< number of elements that differ
  std::size_t of = 0;
  double largest = 0;            ///< largest |difference| of an element
  std::optional<double> factor;  ///< right = factor x left, up to rounding, in every element; never 1
  bool is_other_layout = false;  ///< same elements in another memory layout: transposed, channels last

  /// right / left; nothing if left is zero.
  std::optional<double> ratio() const;

  /// "[3, 7]: 0.25 (0x3e800000) and 0.5 (0x3f000000), ratio 2, 8388608 ULPs; 12 of 640 elements differ, …".
  std::string text() const;
};

/// Finds that element. Nothing if the tensors are bitwise equal, or if their dtype or shape differs. `beyond_rounding`:
/// skips elements that differ far less than others, because rounding came before.
std::optional<Element> first_unequal_element(const trace::StoredTensor& left, const trace::StoredTensor& right,
                                             bool beyond_rounding = false);

}  // namespace lockstep::compare
