#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::test {

/// Forgets what was allocated before.
void forget_allocations();

/// The largest single allocation with `new` since then, in bytes.
std::size_t largest_allocation();

/// The most bytes that were allocated since then and not yet freed.
std::size_t most_allocated();

/// Bytes that were allocated since then and are not freed yet; what was allocated before and freed since counts less.
std::int64_t still_allocated();

/// Counts memory that does not come from `new`: `bytes` more, or fewer.
void count_allocation(std::int64_t bytes);

}  // namespace lockstep::test
