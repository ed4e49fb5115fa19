#include "harness/record/elements.h"

#include <cstring>

#include "harness/base/error.h"

namespace lockstep::record {
namespace {

bool is_dense(const TensorView& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.strides.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Copies a strided tensor: its last dimension in a loop of its own, over the others an index that carries.
template <std::size_t kSize>
void gather(const TensorView& tensor, std::byte* to, const std::byte* end) {
  const std::size_t last = tensor.shape.size() - 1;
  const std::int64_t step = tensor.strides[last] * static_cast<std::int64_t>(kSize);
  std::vector<std::int64_t> index(last, 0);
  while (to < end) {
    const auto* from = static_cast<const std::byte*>(tensor.data);
    for (std::size_t d = 0; d < last; ++d) from += index[d] * tensor.strides[d] * static_cast<std::int64_t>(kSize);
    for (std::int64_t i = 0; i < tensor.shape[last]; ++i, to += kSize) std::memcpy(to, from + i * step, kSize);
    for (std::size_t d = last; d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

std::size_t bytes_of(const TensorView& tensor) {
  std::size_t bytes = trace::bytes_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void copy_elements(const TensorView& tensor, std::byte* to) {
  LOCKSTEP_CHECK(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size());
  const std::size_t bytes = bytes_of(tensor);
  if (bytes == 0) return;
  if (is_dense(tensor)) {
    std::memcpy(to, tensor.data, bytes);
    return;
  }
  switch (trace::bytes_of(tensor.dtype)) {
    case 1:
      return gather<1>(tensor, to, to + bytes);
    case 2:
      return gather<2>(tensor, to, to + bytes);
    case 4:
      return gather<4>(tensor, to, to + bytes);
    default:
      return gather<8>(tensor, to, to + bytes);
  }
}

Elements::Elements(const TensorView& tensor) {
  LOCKSTEP_CHECK(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size());
  if (is_dense(tensor)) {
    bytes_ = {static_cast<const std::byte*>(tensor.data), bytes_of(tensor)};
  } else {
    copy_.resize(bytes_of(tensor));
    copy_elements(tensor, copy_.data());
    bytes_ = copy_;
  }
}

}  // namespace lockstep::record
