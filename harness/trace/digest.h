#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/dtype.h"

namespace lockstep::trace {

/// Identity of one tensor: its dtype, shape and elements in row-major order.
///
/// Equal tensors have equal digests on every device; a swap of two elements, a reshape or a cast gives another.
/// *Source*: XXH3-128 (xxHash 0.8); the tree over it is described in format.md.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

/// Bytes of one leaf of the tree.
inline constexpr std::size_t kLeafBytes = 16 * 1024;

/// Leaf digests that one inner node covers.
inline constexpr std::size_t kLeavesPerNode = 1024;

/// Digest of a dense tensor.
/// *Shape*: `elements` holds product(`shape`) values of `dtype`; a scalar has an empty `shape`.
Digest digest_of(DType dtype, std::span<const std::int64_t> shape, std::span<const std::byte> elements);

/// XXH3-64 of the bytes of each row along the first dimension. None of a scalar, or of more rows than a batch has.
std::vector<std::uint64_t> rows_of(std::span<const std::int64_t> shape, std::span<const std::byte> elements);

/// 32 lower-case hexadecimal digits, high half first.
std::string to_text(const Digest& digest);
std::optional<Digest> digest_from(std::string_view text);

}  // namespace lockstep::trace
