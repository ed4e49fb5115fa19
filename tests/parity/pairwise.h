#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"

namespace lockstep::test {

/// One thing that cases differ in, and the values that it takes: each an object to be merged into a case.
struct Factor {
  std::string name;
  std::vector<Json> values;
};

/// Few cases in which every two values of different factors meet at least once: each case is the greedy choice of what
/// covers most pairs not met before. A case maps each factor's name to the index of its value.
std::vector<std::vector<std::size_t>> pairwise(const std::vector<Factor>& factors);

}  // namespace lockstep::test
