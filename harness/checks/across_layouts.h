#pragma once

#include <string>
#include <vector>

#include "harness/checks/check.h"
#include "harness/compare/scope.h"
#include "harness/trace/trace.h"

namespace lockstep::checks {

/// Leaves out own gradients that runs cannot have in common where their ranks share the model in different ways: of
/// parameters that FSDP2 does not reduce, and of later reductions within an update. DDP adds these to what it has
/// reduced; FSDP2 keeps them apart. *Lifetime*: of the runs.
compare::Scope across_layouts(const std::vector<const trace::RunTrace*>& runs, compare::Scope scope = {});

/// The same for two runs, where they are known to share the model in different ways.
compare::Scope across_layouts(const trace::RunTrace& left, const trace::RunTrace& right, compare::Scope scope = {});

/// Takes collectives out of the channels of two such runs, unless the check names channels, and says so; empty: it
/// takes none.
std::string leave_collectives_out(const trace::RunTrace& left, const trace::RunTrace& right, const CheckInput& input,
                                  std::vector<trace::Channel>& channels);

/// Says that own gradients were left out; empty: none.
std::string left_out_across_layouts(const std::vector<const trace::RunTrace*>& runs);

/// The same for two runs, where they are known to share the model in different ways.
std::string left_out_across_layouts(const trace::RunTrace& left, const trace::RunTrace& right);

}  // namespace lockstep::checks
