#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/trace/shard.h"

#include "tests/trace/random.h"

namespace lockstep::trace::test {

/// A part of a tensor: where it lies, and its shape.
struct Box {
  Shard shard;
  std::vector<std::int64_t> shape;
};

/// Up to three dimensions, some of them odd, with up to some thousand elements.
inline std::vector<std::int64_t> random_shape(Random& random) {
  std::vector<std::int64_t> shape(1 + random.below(3));
  for (std::int64_t& extent : shape)
    extent = 1 + static_cast<std::int64_t>(random.below(shape.size() == 1 ? 3000 : 17));
  return shape;
}

/// Boxes that make the whole tensor, uneven as they come; in each dimension one to three parts.
inline std::vector<Box> random_split(Random& random, const std::vector<std::int64_t>& shape) {
  std::vector<Box> boxes{
      {.shard = {.whole = shape, .offset = std::vector<std::int64_t>(shape.size(), 0)}, .shape = shape}};
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    std::vector<std::int64_t> cuts{0, shape[dimension]};
    for (std::size_t i = random.below(3); i > 0; --i)
      cuts.push_back(static_cast<std::int64_t>(random.below(static_cast<std::size_t>(shape[dimension]) + 1)));
    std::sort(cuts.begin(), cuts.end());
    std::vector<Box> parts;
    for (const Box& box : boxes) {
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        Box part = box;
        part.shard.offset[dimension] = cuts[i];
        part.shape[dimension] = cuts[i + 1] - cuts[i];
        parts.push_back(part);
      }
    }
    boxes = parts;
  }
  return boxes;
}

/// A box's bytes, element by element.
inline std::vector<std::byte> cut(const Box& box, const std::vector<std::byte>& whole, std::size_t size) {
  std::vector<std::byte> part;
  const std::size_t count = count_of(box.shape);
  for (std::size_t at = 0; at < count; ++at) {
    std::size_t rest = at, in_whole = 0, stride = 1;
    for (std::size_t i = box.shape.size(); i-- > 0;) {
      const auto extent = static_cast<std::size_t>(box.shape[i]);
      in_whole += (static_cast<std::size_t>(box.shard.offset[i]) + rest % extent) * stride;
      rest /= extent;
      stride *= static_cast<std::size_t>(box.shard.whole[i]);
    }
    const auto first = whole.begin() + static_cast<long>(in_whole * size);
    part.insert(part.end(), first, first + static_cast<long>(size));
  }
  return part;
}

}  // namespace lockstep::trace::test
