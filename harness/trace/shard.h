#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::trace {

/// The part of a tensor that one rank holds: a box of the whole tensor, without padding.
struct Shard {
  std::vector<std::int64_t> whole;       ///< shape of the whole tensor
  std::vector<std::int64_t> offset;      ///< index of the box's first element; as many dimensions as the whole
  std::string mesh;                      ///< names and sizes of the ranks' dimensions: "dp_shard=2,tp=2"
  std::string placements;                ///< one for each dimension of the mesh, as PyTorch writes them: "S(0),R"
  std::vector<std::int64_t> coordinate;  ///< of the rank in the mesh

  bool operator==(const Shard&) const = default;
};

/// Elements that lie side by side in the box and in the whole tensor.
struct ElementRun {
  std::size_t in_whole = 0;  ///< index of the first one, row-major
  std::size_t in_box = 0;
  std::size_t count = 0;
};

/// Number of elements of a shape. A scalar has one.
std::size_t count_of(std::span<const std::int64_t> shape);

/// Whether a box of this shape lies in the whole tensor.
bool fits(const Shard& shard, std::span<const std::int64_t> shape);

/// Calls `visit` for the longest runs of a box, in row-major order. The shard must fit.
void for_each_run(const Shard& shard, std::span<const std::int64_t> shape,
                  const std::function<void(const ElementRun&)>& visit);

/// The box for people: "[0:17, 0:34] of [34, 34]".
std::string text_of_box(const Shard& shard, std::span<const std::int64_t> shape);

}  // namespace lockstep::trace
