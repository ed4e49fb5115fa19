#pragma once

#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Whether two tensors hold the same numbers in other places: they have their largest element and their norm in
/// common, and neither their bits nor, but for the sign, their directions.
bool same_numbers(const trace::Record& a, const trace::Record& b);

}  // namespace lockstep::diagnosis
