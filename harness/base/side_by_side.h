#pragma once

#include <cstddef>
#include <functional>

namespace lockstep {

/// Calls `act` with 0, 1, … below `count`, on as many threads as there are processors, and returns when all are done.
/// No call may write what another one uses.
///
/// *Throws*: what the first call in this order threw, once all are done.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& act);

}  // namespace lockstep
