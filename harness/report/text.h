#pragma once

#include <string>

#include "harness/plan/plan.h"
#include "harness/report/verdict.h"

namespace lockstep::report {

/// A table of scenarios, then every failure with place, values, class, cause and what to do next.
/// `color`: whether terminal colours may be used.
std::string to_text(const Verdict& verdict, const plan::Plan& plan, bool color);

/// One divergence, indented: step, channel, tensor, rank, both sides, relation, class, cause.
std::string to_text(const compare::Divergence& divergence);

/// The machine-readable result, "lockstep.result/1".
Json to_json(const Verdict& verdict, const plan::Plan& plan);
Json to_json(const compare::Divergence& divergence);

}  // namespace lockstep::report
