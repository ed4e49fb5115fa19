#pragma once

#include <string>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::judge {

/// Why whole files are not all that the recipe of a run makes its ranks record: a step, a channel, a tensor or a part
/// of a record is missing, or one too many is there. Says where, and what was expected; empty where nothing is missing.
///
/// A program is held only to records that every recorder of lockstep writes. `variant`: of `scenario`.
std::string unlike_recipe(const trace::RunTrace& run, const scenario::Variant& variant,
                          const scenario::Scenario& scenario);

}  // namespace lockstep::judge
