#include "harness/trace/digest.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <vector>

#include <xxh_x86dispatch.h>  // as xxhash.h, with the widest vectors of this processor

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::trace {
namespace {

using Bytes = std::pmr::vector<std::byte>;

XXH128_canonical_t canonical(XXH128_hash_t hash) {
  XXH128_canonical_t result;
  XXH128_canonicalFromHash(&result, hash);
  return result;
}

void append_little_endian(Bytes& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::byte>(value >> shift & 0xff));
}

/// dtype name, a zero byte, number of dimensions, each dimension.
void append_header(Bytes& header, DType dtype, std::span<const std::int64_t> shape) {
  for (const char c : name_of(dtype)) header.push_back(static_cast<std::byte>(c));
  header.push_back(std::byte{0});
  append_little_endian(header, shape.size());
  for (const std::int64_t extent : shape) append_little_endian(header, static_cast<std::uint64_t>(extent));
}

}  // namespace

Digest digest_of(DType dtype, std::span<const std::int64_t> shape, std::span<const std::byte> elements) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  LOCKSTEP_CHECK(elements.size() == count * bytes_of(dtype));

  std::array<std::byte, 256> usual;  // as much as all but huge tensors need
  std::pmr::monotonic_buffer_resource memory(usual.data(), usual.size());
  Bytes root(&memory);
  root.reserve(usual.size());
  append_header(root, dtype, shape);
  XXH128_canonical_t leaves[kLeavesPerNode];
  for (std::size_t at = 0; at < elements.size();) {
    std::size_t leaf = 0;
    for (; leaf < kLeavesPerNode && at < elements.size(); ++leaf) {
      const std::size_t size = std::min(kLeafBytes, elements.size() - at);
      leaves[leaf] = canonical(XXH3_128bits(elements.data() + at, size));
      at += size;
    }
    const XXH128_canonical_t node = canonical(XXH3_128bits(leaves, leaf * sizeof leaves[0]));
    const auto* begin = reinterpret_cast<const std::byte*>(node.digest);
    root.insert(root.end(), begin, begin + sizeof node.digest);
  }
  const XXH128_hash_t hash = XXH3_128bits(root.data(), root.size());
  return {.high = hash.high64, .low = hash.low64};
}

std::vector<std::uint64_t> rows_of(std::span<const std::int64_t> shape, std::span<const std::byte> elements) {
  constexpr std::int64_t kMost = 4096;
  if (shape.empty() || shape[0] < 1 || shape[0] > kMost) return {};
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(shape[0]));
  const std::size_t size = elements.size() / rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = XXH3_64bits(elements.data() + i * size, size);
  return rows;
}

std::string to_text(const Digest& digest) { return to_hex(digest.high) + to_hex(digest.low); }

std::optional<Digest> digest_from(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = from_hex(text.substr(0, 16));
  const auto low = from_hex(text.substr(16));
  if (!high || !low) return std::nullopt;
  return Digest{*high, *low};
}

}  // namespace lockstep::trace
