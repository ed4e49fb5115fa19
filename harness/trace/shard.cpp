#include "harness/trace/shard.h"

#include <algorithm>

#include "harness/base/error.h"

namespace lockstep::trace {

std::size_t count_of(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

bool fits(const Shard& shard, std::span<const std::int64_t> shape) {
  if (shard.whole.size() != shape.size() || shard.offset.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || shard.offset[i] < 0 || shard.whole[i] < shape[i] || shard.offset[i] > shard.whole[i] - shape[i])
      return false;
  }
  return true;
}

void for_each_run(const Shard& shard, std::span<const std::int64_t> shape,
                  const std::function<void(const ElementRun&)>& visit) {
  LOCKSTEP_CHECK(fits(shard, shape));
  const std::size_t dimensions = shape.size(), count = count_of(shape);
  if (count == 0) return;
  // From `inner` on, the box has all that the whole tensor has: a run covers these and the dimension before them.
  std::size_t inner = dimensions;
  while (inner > 0 && shape[inner - 1] == shard.whole[inner - 1]) --inner;
  const std::size_t outer = inner > 0 ? inner - 1 : 0;
  const std::size_t length = count_of(shape.subspan(outer));
  std::vector<std::size_t> stride(dimensions, 1);
  for (std::size_t i = dimensions; i-- > 1;) stride[i - 1] = stride[i] * static_cast<std::size_t>(shard.whole[i]);
  std::size_t start = 0;
  for (std::size_t i = 0; i < dimensions; ++i) start += static_cast<std::size_t>(shard.offset[i]) * stride[i];
  std::vector<std::int64_t> index(outer, 0);
  for (std::size_t at = 0; at < count; at += length) {
    std::size_t in_whole = start;
    for (std::size_t i = 0; i < outer; ++i) in_whole += static_cast<std::size_t>(index[i]) * stride[i];
    visit({.in_whole = in_whole, .in_box = at, .count = length});
    for (std::size_t i = outer; i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
  }
}

std::string text_of_box(const Shard& shard, std::span<const std::int64_t> shape) {
  std::string text = "[", whole = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shard.offset[i]) + ":" + std::to_string(shard.offset[i] + shape[i]);
    whole += (i > 0 ? ", " : "") + std::to_string(shard.whole[i]);
  }
  return text + "] of " + whole + "]";
}

}  // namespace lockstep::trace
