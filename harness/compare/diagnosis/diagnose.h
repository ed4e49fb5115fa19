#pragma once

#include "harness/compare/check.h"

namespace lockstep::compare {

/// Names the likeliest causes of a divergence, with what speaks for each, and with them its class. Leaves a divergence
/// that no row of the table fits without a cause: class, place and explanation are then all that is known.
void diagnose(const CheckInput& input, CheckResult& result);

}  // namespace lockstep::compare
