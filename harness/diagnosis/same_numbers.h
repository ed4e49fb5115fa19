#pragma once

#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Whether two tensors hold the same numbers in other places. They have their largest element and their norm in common.
/// Their bits differ, and so do their directions, whatever the sign.
bool same_numbers(const trace::Record& a, const trace::Record& b);

}  // namespace lockstep::diagnosis
