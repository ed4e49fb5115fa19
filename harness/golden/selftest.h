#pragma once

#include <string>
#include <vector>

#include "harness/golden/golden_file.h"
#include "harness/scenario/scenario.h"

namespace lockstep::golden {

/// One change of what a golden holds, which its check must see.
struct Trial {
  std::string golden;  ///< "world-size/w3 (portable)"
  std::string change;  ///< "weight: one bit of a digest"
  bool is_seen = false;
};

/// Compares a run that equals a golden's entry with it, then the same run with each change: of each channel one bit,
/// one ULP of a number, two records swapped, one lost, of another dtype or shape; a step less; a rank less. *Throws*:
/// InputError where the run that equals it does not agree: nothing can be shown then.
std::vector<Trial> selftest(const scenario::Scenario& scenario, const scenario::CheckSpec& check,
                            const std::string& variant, const Golden& golden, const Entry& entry);

}  // namespace lockstep::golden
