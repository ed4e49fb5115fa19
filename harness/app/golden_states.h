#pragma once

#include <string>
#include <vector>

#include "harness/app/options.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// State of one golden, or of one entry of it, without a run.
struct GoldenState {
  std::string golden;  ///< "world-size/w3 (portable)"
  std::string state;   ///< "current", "missing", "stale", "obsolete", "unknown key", "no lane", "conflict", …
  std::string why;     ///< empty: it is current
  std::string next;
  int code = 0;  ///< 0: current; 3: somebody has to decide; 4: damaged
};

/// States of the goldens that the scenarios of these plans check, in order. `is_all`: no other scenario has goldens in
/// their folders, so that others are obsolete.
std::vector<GoldenState> states_of_goldens(const std::vector<plan::Plan>& plans,
                                           const std::filesystem::path& given_root, bool is_all);

/// The worst code: damaged, then undecided.
int code_of(const std::vector<GoldenState>& states);

}  // namespace lockstep::app
