#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/trace/dtype.h"
#include "harness/trace/shard.h"

namespace lockstep::record {

/// A tensor in plain memory. *Lifetime*: borrowed for the duration of a call.
struct TensorView {
  const void* data = nullptr;
  trace::DType dtype = trace::DType::kFloat32;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  ///< in elements; empty: dense, row-major
  const trace::Shard* shard = nullptr;    ///< where it lies in the tensor that it is a part of; nullptr: it is whole
};

std::size_t bytes_of(const TensorView& tensor);

/// Copies the elements in row-major order. `to` has room for `bytes_of(tensor)`.
void copy_elements(const TensorView& tensor, std::byte* to);

/// A tensor's elements in row-major order, copied only if they do not lie so. *Lifetime*: of the tensor.
class Elements {
 public:
  explicit Elements(const TensorView& tensor);
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::record
