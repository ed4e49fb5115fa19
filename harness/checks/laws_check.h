#pragma once

#include <string>
#include <vector>

#include "harness/checks/check.h"
#include "harness/checks/checkpoint_law.h"
#include "harness/laws/law.h"

namespace lockstep::checks {

/// A law and its result on one run.
struct AskedLaw {
  const laws::Law* law = nullptr;
  CheckResult result;
  bool applies = true;  ///< the recipe has a use for it
};

/// Asks one law of one run, whether the recipe has a use for it or not, and names causes of a breach.
CheckResult judge_law(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises,
                      const Saver& saver = {});

/// Asks laws of one run, in the order of their table: these by name, or all. `saver`: whose checkpoint it loads.
std::vector<AskedLaw> judge_laws(const trace::RunTrace& run, const scenario::Promises& promises,
                                 const std::vector<std::string>& names = {}, const Saver& saver = {});

}  // namespace lockstep::checks
