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

/// Changes a run that equals a golden's entry, and compares it. Of each channel it flips one bit, and moves a number by
/// one ULP. It swaps two records, removes one, and gives one another dtype or shape. It also removes a step, and a
/// rank. *Throws*: InputError where the unchanged run does not agree: nothing can be shown then.
std::vector<Trial> selftest(const scenario::Scenario& scenario, const scenario::CheckSpec& check,
                            const std::string& variant, const Golden& golden, const Entry& entry);

}  // namespace lockstep::golden
