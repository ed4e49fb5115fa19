#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep::plan {

/// One of equal parts of the checks of some scenarios. The parts of one number together are all of them.
struct Part {
  std::size_t number = 1;  ///< from 1 to `of`
  std::size_t of = 1;
  bool operator==(const Part&) const = default;
};

/// "2/4". *Throws*: InputError.
Part parse_part(const std::string& text);

/// Leaves the variants that the checks name, and those whose checkpoints these take.
void keep_what_is_needed(scenario::Scenario& scenario);

/// Every `of`-th check, counted through all scenarios, and the variants that these checks and their checkpoints need.
/// Scenarios without a chosen check are left out. *Throws*: InputError when no check is left.
std::vector<scenario::Scenario> part_of(std::vector<scenario::Scenario> scenarios, const Part& part);

}  // namespace lockstep::plan
