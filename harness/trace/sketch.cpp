#include "harness/trace/sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "harness/base/error.h"

namespace lockstep::trace {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kLanes = 8;

/// Cloned for wider vectors: multiplication and addition stay separate, so the bits are the same.
#define LOCKSTEP_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))

using Doubles = double __attribute__((vector_size(64), aligned(8)));
using Ints = std::int32_t __attribute__((vector_size(32), aligned(4), may_alias));
using Longs = std::int64_t __attribute__((vector_size(64), aligned(8), may_alias));
using Words = std::uint64_t __attribute__((vector_size(64), aligned(8)));

/// SplitMix64 finaliser. *Source*: Steele, Lea, Flood 2014.
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Running sums; `rows[v]` belongs to the blocks whose bucket permutation has the low three bits v.
struct Sums {
  alignas(64) double rows[kLanes][Sketch::kBuckets] = {};
  alignas(64) double squares[kLanes] = {};
  alignas(64) double largest[kLanes] = {};
  unsigned used = 0;  ///< bit v: rows[v] holds something
};

/// Adds whole blocks of 64 elements, the first of which is number `first`; the order of additions in every sum is that
/// of the elements. `Bits`: eight integers of the width of an element.
template <typename Bits, typename Element>
inline __attribute__((always_inline)) void add_blocks_of(const Element* x, std::size_t first, std::size_t blocks,
                                                         Sums& sums) {
  using Integer = std::conditional_t<sizeof(Element) == 8, std::int64_t, std::int32_t>;
  const Words sign_bit = Words{} + (1ULL << 63);
  Words shift[kBlock / kLanes];
  for (std::size_t group = 0; group < kBlock / kLanes; ++group) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) shift[group][lane] = 63 - (group * kLanes + lane);
  }
  unsigned used = sums.used;
  Doubles squares;
  Bits largest = {};  // bit patterns of magnitudes are ordered as the magnitudes are
  std::memcpy(&squares, sums.squares, sizeof squares);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::uint64_t hash = mix(first + block);
    const std::uint64_t permutation = (hash * 0x9E3779B97F4A7C15ULL) >> 59;
    double* row = sums.rows[permutation & 7];
    used |= 1U << (permutation & 7);
    const Words signs = Words{} + hash;
#pragma GCC unroll 8
    for (std::size_t group = 0; group < kBlock / kLanes; ++group) {
      double* target = row + kLanes * ((group ^ (permutation >> 3)) % (Sketch::kBuckets / kLanes));
      const Element* elements = x + block * kBlock + group * kLanes;
      Doubles value;  // by a loop: __builtin_convertvector converts in two halves and joins them
      for (std::size_t lane = 0; lane < kLanes; ++lane) value[lane] = elements[lane];
      const Doubles square = value * value;
      squares += square;
      const Bits magnitude = *reinterpret_cast<const Bits*>(elements) & std::numeric_limits<Integer>::max();
      largest = magnitude > largest ? magnitude : largest;
      *reinterpret_cast<Doubles*>(target) += (Doubles)((Words)value ^ ((signs << shift[group]) & sign_bit));
    }
  }
  sums.used = used;
  std::memcpy(sums.squares, &squares, sizeof squares);
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    sums.largest[lane] =
        std::max<double>(sums.largest[lane], std::bit_cast<Element>(static_cast<Integer>(largest[lane])));
}

LOCKSTEP_WIDE void add_blocks(const float* x, std::size_t first, std::size_t blocks, Sums& sums) {
  add_blocks_of<Ints>(x, first, blocks, sums);
}

LOCKSTEP_WIDE void add_blocks(const double* x, std::size_t first, std::size_t blocks, Sums& sums) {
  add_blocks_of<Longs>(x, first, blocks, sums);
}

/// Adds the rows up, each to the buckets that its permutation says.
LOCKSTEP_WIDE void fold_rows(const Sums& sums, double* buckets) {
  for (std::size_t row = 0; row < kLanes; ++row) {
    if ((sums.used >> row & 1) == 0) continue;
    Words exchange;  // element i of a group goes to bucket i XOR row
    for (std::size_t i = 0; i < kLanes; ++i) exchange[i] = i ^ row;
    for (std::size_t group = 0; group < Sketch::kBuckets; group += kLanes) {
      *reinterpret_cast<Doubles*>(buckets + group) +=
          __builtin_shuffle(*reinterpret_cast<const Doubles*>(sums.rows[row] + group), exchange);
    }
  }
}

Sketch finish(const Sums& sums) {
  Sketch sketch;
  double squares = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    squares += sums.squares[lane];
    sketch.max_abs = std::max(sketch.max_abs, sums.largest[lane]);
  }
  fold_rows(sums, sketch.buckets.data());
  sketch.norm = std::sqrt(squares);
  if (std::isnan(sketch.norm)) sketch.max_abs = sketch.norm = std::nan("");
  return sketch;
}

/// Adds elements that lie side by side, the first of which is number `first` of the tensor. They are `Stored`, and
/// computed with as `Element`.
template <typename Stored, typename Element, typename Widen>
void add_run(const std::byte* elements, std::size_t first, std::size_t count, Widen widen, Sums& sums) {
  while (count > 0) {
    const std::size_t into = first % kBlock;
    std::size_t taken = std::min(kBlock - into, count);
    if constexpr (std::is_same_v<Stored, Element>) {
      if (taken == kBlock) {
        const std::size_t blocks = count / kBlock;
        add_blocks(reinterpret_cast<const Element*>(elements), first / kBlock, blocks, sums);
        taken = blocks * kBlock;
      }
    }
    if (taken < kBlock || !std::is_same_v<Stored, Element>) {
      Element block[kBlock] = {};  // zeros change no sum
      for (std::size_t i = 0; i < taken; ++i) {
        Stored stored;
        std::memcpy(&stored, elements + i * sizeof stored, sizeof stored);
        block[into + i] = widen(stored);
      }
      add_blocks(block, first / kBlock, 1, sums);
    }
    elements += taken * sizeof(Stored);
    first += taken;
    count -= taken;
  }
}

void add_run(DType dtype, const std::byte* elements, std::size_t first, std::size_t count, Sums& sums) {
  const auto same = [](auto value) { return value; };
  if (dtype == DType::kFloat32) add_run<float, float>(elements, first, count, same, sums);
  if (dtype == DType::kFloat64) add_run<double, double>(elements, first, count, same, sums);
  if (dtype == DType::kFloat16) add_run<std::uint16_t, float>(elements, first, count, half_to_float, sums);
  if (dtype == DType::kBFloat16) add_run<std::uint16_t, float>(elements, first, count, bfloat16_to_float, sums);
}

}  // namespace

Sketch sketch_of(DType dtype, std::span<const std::byte> elements) {
  LOCKSTEP_CHECK(is_floating(dtype));
  Sums sums;
  add_run(dtype, elements.data(), 0, elements.size() / bytes_of(dtype), sums);
  return finish(sums);
}

Sketch sketch_of(DType dtype, const Shard& shard, std::span<const std::int64_t> shape,
                 std::span<const std::byte> elements) {
  LOCKSTEP_CHECK(is_floating(dtype));
  Sums sums;
  for_each_run(shard, shape, [&](const ElementRun& run) {
    add_run(dtype, elements.data() + run.in_box * bytes_of(dtype), run.in_whole, run.count, sums);
  });
  return finish(sums);
}

std::vector<double> sample_of(DType dtype, std::span<const std::byte> elements) {
  const std::size_t size = bytes_of(dtype);
  std::vector<double> sample;
  for (const std::size_t place : sampled_places(elements.size() / size))
    sample.push_back(value_of(dtype, elements.data() + place * size));
  return sample;
}

std::vector<std::size_t> sampled_places(std::size_t count) {
  constexpr std::size_t kMost = 8;
  const std::size_t taken = std::min(count, kMost);
  std::vector<std::size_t> places(taken);
  for (std::size_t i = 0; i < taken; ++i) places[i] = taken < 2 ? 0 : i * (count - 1) / (taken - 1);
  return places;
}

std::vector<Sampled> sampled_in(const Shard& shard, std::span<const std::int64_t> shape) {
  std::vector<Sampled> found;
  const std::vector<std::size_t> places = sampled_places(count_of(shard.whole));
  for (std::size_t number = 0; number < places.size(); ++number) {
    std::size_t rest = places[number], in_box = 0, stride = 1;
    bool is_inside = true;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const auto extent = static_cast<std::size_t>(shard.whole[i]);
      const std::int64_t index = static_cast<std::int64_t>(rest % extent) - shard.offset[i];
      is_inside = is_inside && index >= 0 && index < shape[i];
      in_box += static_cast<std::size_t>(index) * stride;
      stride *= static_cast<std::size_t>(shape[i]);
      rest /= extent;
    }
    if (is_inside) found.push_back({.number = number, .in_box = in_box});
  }
  return found;
}

Sketch sum_of(const Sketch& a, const Sketch& b) {
  Sketch sum{.norm = std::sqrt(a.norm * a.norm + b.norm * b.norm), .max_abs = std::max(a.max_abs, b.max_abs)};
  if (std::isnan(sum.norm)) sum.max_abs = std::nan("");
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) sum.buckets[i] = a.buckets[i] + b.buckets[i];
  return sum;
}

Sketch difference(const Sketch& a, const Sketch& b) {
  Sketch result;
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) result.buckets[i] = a.buckets[i] - b.buckets[i];
  result.norm = estimated_norm(result);
  return result;
}

double estimated_norm(const Sketch& sketch) {
  double squares = 0;
  for (const double bucket : sketch.buckets) squares += bucket * bucket;
  return std::sqrt(squares);
}

std::optional<Scale> scale_between(const Sketch& a, const Sketch& b) {
  double aa = 0, ab = 0, bb = 0;
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) {
    aa += a.buckets[i] * a.buckets[i];
    ab += a.buckets[i] * b.buckets[i];
    bb += b.buckets[i] * b.buckets[i];
  }
  if (!(aa > 0) || !(bb > 0) || !std::isfinite(aa) || !std::isfinite(bb)) return std::nullopt;
  const double factor = ab / aa;
  double residual = 0;
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) {
    const double rest = b.buckets[i] - factor * a.buckets[i];
    residual += rest * rest;
  }
  return Scale{factor, std::sqrt(residual / bb)};
}

}  // namespace lockstep::trace
