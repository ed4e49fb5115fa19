#include "harness/compare/element.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

/// One element's bits, as the integer that they are in memory.
std::uint64_t bits_of(const trace::StoredTensor& tensor, std::size_t i) {
  const std::size_t size = trace::bytes_of(tensor.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + i * size, size);
  return bits;
}

double value_at(const trace::StoredTensor& tensor, std::size_t i) {
  return trace::value_of(tensor.dtype,
                         reinterpret_cast<const std::byte*>(tensor.bytes.data()) + i * trace::bytes_of(tensor.dtype));
}

std::string hex_of(std::uint64_t bits, std::size_t bytes) { return "0x" + to_hex(bits).substr(16 - 2 * bytes); }

/// Floats in the order of their values: neighbours differ by one, and both zeros are one.
std::int64_t ordered(std::uint64_t bits, std::size_t bytes) {
  const std::uint64_t sign = std::uint64_t{1} << (CHAR_BIT * bytes - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::uint64_t ulps_between(std::uint64_t a, std::uint64_t b, std::size_t bytes) {
  const std::int64_t x = ordered(a, bytes), y = ordered(b, bytes);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

std::vector<std::int64_t> index_of(std::size_t i, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[d]);
    index[d] = static_cast<std::int64_t>(i % extent);
    i /= extent;
  }
  return index;
}

/// The factor from left to right, taken where left is largest, if it fits all of at least two elements.
std::optional<double> common_factor(const trace::StoredTensor& left, const trace::StoredTensor& right,
                                    std::size_t count) {
  std::size_t largest = 0, present = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::fabs(value_at(left, i)) > std::fabs(value_at(left, largest))) largest = i;
    present += value_at(left, i) != 0 ? 1 : 0;
  }
  if (present < 2) return std::nullopt;
  const double factor = value_at(right, largest) / value_at(left, largest);
  constexpr double kRoundings = 8;
  const double slack = kRoundings * 2 * trace::unit_roundoff(left.dtype);
  if (!std::isfinite(factor) || std::fabs(factor - 1) <= slack) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = factor * value_at(left, i);
    if (!(std::fabs(value_at(right, i) - expected) <= slack * std::fabs(expected))) return std::nullopt;
  }
  return factor;
}

/// Whether `to` holds the elements of `from` as they follow each other when its dimensions are gone through in another
/// order, the last of `order` fastest.
bool is_read_in_order(const trace::StoredTensor& from, const trace::StoredTensor& to,
                      const std::vector<std::size_t>& order) {
  const std::size_t dimensions = from.shape.size();
  std::vector<std::size_t> strides(dimensions, 1), index(dimensions, 0);
  for (std::size_t d = dimensions - 1; d > 0; --d)
    strides[d - 1] = strides[d] * static_cast<std::size_t>(from.shape[d]);
  for (std::size_t i = 0, at = 0;; ++i) {
    if (bits_of(from, at) != bits_of(to, i)) return false;
    std::size_t next = dimensions;
    for (; next > 0; --next) {
      const std::size_t d = order[next - 1];
      at += strides[d];
      if (++index[d] < static_cast<std::size_t>(from.shape[d])) break;
      at -= strides[d] * index[d];
      index[d] = 0;
    }
    if (next == 0) return true;
  }
}

/// Of tensors that differ.
bool is_other_layout(const trace::StoredTensor& left, const trace::StoredTensor& right) {
  constexpr std::size_t kMost = 5;  // dimensions, of a volume's kernel
  if (left.shape.size() < 2 || left.shape.size() > kMost) return false;
  std::vector<std::size_t> order(left.shape.size());
  std::iota(order.begin(), order.end(), 0);
  while (std::next_permutation(order.begin(), order.end())) {
    if (is_read_in_order(left, right, order) || is_read_in_order(right, left, order)) return true;
  }
  return false;
}

}  // namespace

std::optional<double> Element::ratio() const {
  return left == 0 || !std::isfinite(right / left) ? std::nullopt : std::optional(right / left);
}

std::string Element::text() const {
  std::string text = "[" + listed(index) + "]: " + to_decimal(left) + " (" + left_bits + ") and " + to_decimal(right) +
                     " (" + right_bits + ")";
  if (ratio()) text += ", ratio " + rounded(*ratio(), 9);
  if (ulps) text += ", " + std::to_string(*ulps) + (*ulps == 1 ? " ULP" : " ULPs");
  text += "; " + std::to_string(unequal) + " of " + std::to_string(of) + (of == 1 ? " element" : " elements") +
          " differ, by at most " + rounded(largest, 3);
  if (factor) text += "; right = " + rounded(*factor, 7) + " x left in every element";
  return text;
}

std::optional<Element> first_unequal_element(const trace::StoredTensor& left, const trace::StoredTensor& right,
                                             bool beyond_rounding) {
  if (left.dtype != right.dtype || left.shape != right.shape || left.bytes.size() != right.bytes.size())
    return std::nullopt;
  const std::size_t size = trace::bytes_of(left.dtype), count = left.bytes.size() / size;
  constexpr double kFarther = 64;  // than rounding that came before it
  std::optional<Element> first;
  std::size_t unequal = 0;
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t a = bits_of(left, i), b = bits_of(right, i);
    if (a == b) continue;
    ++unequal;
    const double x = value_at(left, i), y = value_at(right, i);
    const double distance = std::fabs(x - y);
    largest = std::isnan(distance) ? distance : std::max(largest, distance);
    if (first && !(beyond_rounding && distance > kFarther * std::fabs(first->left - first->right))) continue;
    first = Element{.index = index_of(i, left.shape),
                    .left = x,
                    .right = y,
                    .left_bits = hex_of(a, size),
                    .right_bits = hex_of(b, size)};
    if (trace::is_floating(left.dtype) && !std::isnan(x) && !std::isnan(y)) first->ulps = ulps_between(a, b, size);
  }
  if (!first) return std::nullopt;
  first->unequal = unequal;
  first->of = count;
  first->largest = largest;
  if (trace::is_floating(left.dtype)) first->factor = common_factor(left, right, count);
  first->is_other_layout = is_other_layout(left, right);
  return first;
}

}  // namespace lockstep::compare
