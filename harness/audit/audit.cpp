#include "harness/audit/audit.h"

#include <algorithm>

namespace lockstep::audit {

using judge::Status;

std::vector<std::string> Audit::with(Answer answer) const {
  std::vector<std::string> ids;
  for (const Line& line : lines) {
    if (line.answer == answer) ids.push_back(line.id);
  }
  return ids;
}

judge::Status Audit::status() const {
  if (lines.empty()) return Status::kInconclusive;
  if (unexpected) return unexpected->empty() ? Status::kAgree : Status::kDivergence;
  if (std::any_of(lines.begin(), lines.end(), is_finding)) return Status::kDivergence;
  return with(Answer::kCannotTell).empty() ? Status::kAgree : Status::kInconclusive;
}

std::vector<std::string> unexpected_in(const Audit& audit, const std::map<std::string, Answer>& findings) {
  std::vector<std::string> texts;
  for (const auto& [id, wanted] : findings) {
    const auto found =
        std::find_if(audit.lines.begin(), audit.lines.end(), [&id = id](const Line& one) { return one.id == id; });
    const std::string expected = id + ": expected " + std::string(name_of(wanted)) + ", ";
    if (found == audit.lines.end() && audit.has_all_findings) texts.push_back(expected + "and there is no such line");
    if (found != audit.lines.end() && found->answer != wanted)
      texts.push_back(expected + "not " + std::string(name_of(found->answer)));
  }
  for (const Line& line : audit.lines) {
    const bool matters = is_finding(line) || line.answer == Answer::kCannotTell;
    if (matters && !findings.contains(line.id))
      texts.push_back(line.id + ": " + std::string(name_of(line.answer)) + ", which the findings lack");
  }
  return texts;
}

}  // namespace lockstep::audit
