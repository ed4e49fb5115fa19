#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/safetensors.h"

namespace lockstep::compare {

/// The first element, in row-major order, in which two tensors differ, and how the rest of them does.
struct Element {
  std::vector<std::int64_t> index;
  double left = 0;
  double right = 0;
  std::string left_bits;  ///< "0x3e800000"
  std::string right_bits;
  std::optional<std::uint64_t> ulps;  ///< floats between the two; nothing for NaN and for integers
  std::size_t unequal = 0;            ///< elements that differ, of all
  std::size_t of = 0;
  double largest = 0;            ///< |difference|, of all elements
  std::optional<double> factor;  ///< right = factor x left, up to rounding, in every element; never 1
  bool is_other_layout = false;  ///< one is the other, read in the order of other strides: transposed, channels last

  /// right / left; nothing where left is zero.
  std::optional<double> ratio() const;

  /// "[3, 7]: 0.25 (0x3e800000) and 0.5 (0x3f000000), ratio 2, 8388608 ULPs; 12 of 640 elements differ, …".
  std::string text() const;
};

/// `beyond_rounding`: the first that is not far smaller than others, as rounding would be, which came before.
/// *Shape*: nothing to say of tensors of different dtype or shape, or that are equal in every bit.
std::optional<Element> first_unequal_element(const trace::StoredTensor& left, const trace::StoredTensor& right,
                                             bool beyond_rounding = false);

}  // namespace lockstep::compare
