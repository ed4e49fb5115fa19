#pragma once

#include <vector>

#include "harness/checks/check.h"

namespace lockstep::checks {

/// Whether an entry of the ledger is an option of torch's optimizers that chooses a kernel, and no formula: "foreach".
bool chooses_kernel(trace::Channel channel, const std::string& name);

/// Compares two runs of programs bit by bit, and looks behind what is no difference of numbers.
///
/// Set aside are generators, collectives, options of optimizers that change no formula ("foreach"), what a side begins
/// without and its script records itself, and weights with all that belongs to them where a side recorded none. If
/// nothing else differs, the runs agree, and `why` says what was set aside; they are inconclusive where a side recorded
/// no weights. If more differs, a generator or a collective comes first as before: it may be the reason. Gradients and
/// options that differ while everything else is equal are *expected*.
CheckResult compare_numbers(const trace::RunTrace& left, const trace::RunTrace& right,
                            const std::vector<trace::Channel>& channels, const CheckInput& input,
                            const compare::Scope& scope = {});

}  // namespace lockstep::checks
