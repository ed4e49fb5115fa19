#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/trace/digest.h"
#include "harness/trace/dtype.h"
#include "harness/trace/shard.h"

namespace lockstep::trace {

/// Digest of a tensor's elements that adds up: those of the shards give that of the whole tensor. It knows neither
/// dtype nor shape.
///
/// Two tensors that differ in one element have different digests. Others that differ, in a way that does not depend on
/// the keys, have equal ones with a probability below 2⁻⁶³.
/// *Source*: multilinear hashing (Lemire, Kaser 2014) in two levels, modulo the prime 2¹²⁷ − 1; format.md has the
/// proof.
Digest additive_digest_of(std::span<const std::byte> elements);

/// The part of the whole tensor's digest that a shard adds.
/// *Shape*: `elements` are those of its box of this shape, dense, row-major.
Digest additive_digest_of(DType dtype, const Shard& shard, std::span<const std::int64_t> shape,
                          std::span<const std::byte> elements);

/// Digest of two parts together, which have no common element.
Digest sum_of(const Digest& a, const Digest& b);

}  // namespace lockstep::trace
