#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harness/trace/dtype.h"
#include "harness/trace/shard.h"

namespace lockstep::trace {

/// A linear summary of a floating-point tensor, in float64: shows how far two tensors are apart without either of them.
///
/// Linear: the sketch of a − b is the difference of the sketches. NaN or infinity in the tensor shows in the sketch.
/// *Source*: count sketch (Charikar, Chen, Farach-Colton 2002) with a bucket permutation per block; see format.md.
struct Sketch {
  static constexpr std::size_t kBuckets = 32;

  double norm = 0;     ///< L2 norm
  double max_abs = 0;  ///< largest |x|
  std::array<double, kBuckets> buckets{};

  bool operator==(const Sketch&) const = default;
};

/// Sketch of a dense tensor; equal bits on every x86-64 processor.
/// *Shape*: `elements` holds whole elements of a floating `dtype`, row-major.
Sketch sketch_of(DType dtype, std::span<const std::byte> elements);

/// The part of the whole tensor's sketch that a shard adds. Its `norm` and `max_abs` are those of the part.
/// *Shape*: `elements` are those of a box of this shape, dense, row-major.
Sketch sketch_of(DType dtype, const Shard& shard, std::span<const std::int64_t> shape,
                 std::span<const std::byte> elements);

/// Eight elements of a dense tensor, evenly spread from the first to the last, or all where there are fewer. They tell
/// of formulas that are not linear, where no sketch can.
std::vector<double> sample_of(DType dtype, std::span<const std::byte> elements);

/// Places of these elements, in rising order. `count`: elements of the tensor.
std::vector<std::size_t> sampled_places(std::size_t count);

/// Which elements of the whole tensor's sample lie in a box: their numbers, and their places in it.
struct Sampled {
  std::size_t number = 0;
  std::size_t in_box = 0;
};
std::vector<Sampled> sampled_in(const Shard& shard, std::span<const std::int64_t> shape);

/// The sketch of two parts without a common element.
Sketch sum_of(const Sketch& a, const Sketch& b);

/// a − b, bucket by bucket; its `norm` is the estimate and `max_abs` is 0.
Sketch difference(const Sketch& a, const Sketch& b);

/// Estimated L2 norm of the sketched tensor from its buckets alone: within a factor of 2 in 99.9 % of cases.
double estimated_norm(const Sketch& sketch);

/// The constant c for which b ≈ c·a.
struct Scale {
  double factor = 0;
  double residual = 0;  ///< ‖b − c·a‖ / ‖b‖; near 0 when b is a constant multiple of a
};

/// Nothing when one of the two is zero or not finite.
std::optional<Scale> scale_between(const Sketch& a, const Sketch& b);

}  // namespace lockstep::trace
