#include "harness/judge/verdict.h"

#include <algorithm>

namespace lockstep::judge {

std::string_view name_of(Status status) {
  switch (status) {
    case Status::kAgree:
      return "agree";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kBaseline:
      return "baseline";
    case Status::kInconclusive:
      return "inconclusive";
    case Status::kDivergence:
      return "divergence";
    case Status::kInvalid:
      return "invalid";
    case Status::kInterrupted:
      return "interrupted";
  }
  return "invalid";
}

int exit_code(Status status) {
  switch (status) {
    case Status::kAgree:
      return 0;
    case Status::kDivergence:
      return 1;
    case Status::kInvalid:
      return 2;
    case Status::kBaseline:
      return 3;
    case Status::kInconclusive:
      return 4;
    case Status::kUnsupported:
      return 77;
    case Status::kInterrupted:
      return 130;
  }
  return 2;
}

Status Verdict::status() const {
  if (runs.empty() && checks.empty()) return Status::kInconclusive;
  Status worst = Status::kAgree;
  for (const RunReport& run : runs) worst = std::max(worst, run.status);
  for (const CheckReport& check : checks) worst = std::max(worst, check.status);
  return worst;
}

Status Verdict::status_of(const std::string& scenario) const {
  Status worst = Status::kAgree;
  bool judged = false;
  for (const RunReport& run : runs) {
    if (run.run.rfind(scenario + "/", 0) != 0) continue;
    judged = true;
    worst = std::max(worst, run.status);
  }
  for (const CheckReport& check : checks) {
    if (check.scenario != scenario) continue;
    judged = true;
    worst = std::max(worst, check.status);
  }
  return judged ? worst : Status::kInconclusive;
}

}  // namespace lockstep::judge
