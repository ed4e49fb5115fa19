#pragma once

#include "harness/laws/optimizer_rule.h"

namespace lockstep::laws {

/// Judges the sampled elements of one parameter's update. False if one breaks its formula.
bool keeps_elements(Outcome& outcome, const RecordPlace& place, const Updated& of);

/// Whether a weight has the bits of before; the breach is named after that.
bool stands_still(const Updated& of, Breach& breach);

}  // namespace lockstep::laws
