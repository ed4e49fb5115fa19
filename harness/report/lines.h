#pragma once

#include <string>
#include <vector>

#include "harness/judge/verdict.h"

namespace lockstep::report {

/// One line of what is said of a check, a run or a divergence.
struct Line {
  enum class Kind {
    kText,
    kCommand,  ///< to be run as it stands
    kLog,      ///< several lines
    kRemedy,   ///< of the likeliest cause, whose line has its id
  };
  std::string label;  ///< "at", "cause"
  std::string value;  ///< as it came: not escaped, of any length
  Kind kind = Kind::kText;
  std::string cause = {};  ///< id of the cause that it names; empty: none
  bool is_other = false;   ///< whether it is about a cause that is less likely than another one
};

/// Lines that have a value, in the order of docs/verdicts.md.
std::vector<Line> lines_of(const compare::Divergence& divergence);
std::vector<Line> lines_of(const judge::CheckReport& check);
std::vector<Line> lines_of(const judge::RunReport& run);

/// Whether two runs ended in the same way, so that one of them says it all.
bool same_end(const judge::RunReport& a, const judge::RunReport& b);

/// Whether two checks of a scenario found the same at the same place, or lack the same run.
bool same_finding(const judge::CheckReport& a, const judge::CheckReport& b);

/// Whether two checks differ from their goldens for one reason, so that one of them says it all: after an upgrade all
/// goldens of a gate do.
bool same_change(const judge::CheckReport& a, const judge::CheckReport& b);

}  // namespace lockstep::report
