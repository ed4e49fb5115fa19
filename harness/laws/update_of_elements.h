#pragma once

#include "harness/laws/explanation.h"
#include "harness/laws/updated.h"

namespace lockstep::laws {

/// Judges the sampled elements of one parameter's update. False if one breaks its formula.
bool keeps_elements(Outcome& outcome, Explanations& why, const RecordPlace& place, const Updated& of);

}  // namespace lockstep::laws
