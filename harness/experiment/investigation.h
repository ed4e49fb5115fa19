#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/judge/judge.h"

namespace lockstep::experiment {

/// Control runs of one kind.
struct Again {
  std::string folder;               ///< name of the folder for their traces
  bool computes_otherwise = false;  ///< if not, memory has other addresses than before: results may follow them
};

/// Runs a plan and reads its traces.
using Execute = std::function<std::vector<judge::Evidence>(plan::Plan& plan, const Again& again)>;

/// Runs controls for each difference or open check of a verdict, as docs/rounding.md has it, and adds the results.
/// Without such findings nothing runs. `evidence`: of the plan's runs. *Units*: `today` as "2027-01-31".
void investigate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                 const std::string& today, const Execute& execute);

}  // namespace lockstep::experiment
