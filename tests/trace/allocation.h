#pragma once

#include <cstddef>

namespace lockstep::trace::test {

/// Forgets what was allocated before.
void forget_allocations();

/// The largest single allocation with `new` since then, in bytes.
std::size_t largest_allocation();

}  // namespace lockstep::trace::test
