#pragma once

#include <vector>

#include "harness/checks/check.h"

namespace lockstep::checks {

/// Whether an entry of the ledger is an option of torch's optimizers that chooses a kernel, and no formula: "foreach".
bool chooses_kernel(trace::Channel channel, const std::string& name);

/// Compares two runs bit by bit; for programs, looks past what is no difference of numbers.
///
/// Channels that the check names are compared as they are. Set aside are generators, collectives, and options of
/// optimizers that change no formula. So is what a script records itself and has not at the first step, and all that
/// belongs to weights where a side recorded none. Runs agree if nothing else differs, and `why` says what was set
/// aside. They are inconclusive without weights. If more differs, a generator or a collective comes first: it may be
/// the reason. Gradients and options are *expected* to differ where everything else is equal.
CheckResult compare_numbers(const trace::RunTrace& left, const trace::RunTrace& right,
                            std::vector<trace::Channel> channels, const CheckInput& input,
                            const compare::Scope& within = {});

/// Says so where two runs part in their collectives alone: that is *expected*, unless the check names that channel.
void name_equal_numbers(compare::Divergence& at, const trace::RunTrace& left, const trace::RunTrace& right,
                        std::vector<trace::Channel> channels, const CheckInput& input);

}  // namespace lockstep::checks
