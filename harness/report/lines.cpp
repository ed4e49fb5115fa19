#include "harness/report/lines.h"

#include <utility>

#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"

namespace lockstep::report {
namespace {

using Kind = Line::Kind;

void add(std::vector<Line>& lines, const char* label, std::string value, Kind kind = Kind::kText) {
  if (!value.empty()) lines.push_back({.label = label, .value = std::move(value), .kind = kind});
}

void add_causes(std::vector<Line>& lines, const std::vector<compare::Suspect>& suspects) {
  for (const compare::Suspect& suspect : suspects) {
    const bool is_other = &suspect != &suspects[0];
    const std::string sentence(diagnosis::find_cause(suspect.cause)->sentence);
    lines.push_back({.label = is_other ? "or" : "cause",
                     .value = suspect.cause + ": " + sentence,
                     .cause = suspect.cause,
                     .is_other = is_other});
    for (const std::string& line : suspect.evidence)
      lines.push_back({.label = "because", .value = line, .is_other = is_other});
    const std::string remedy(diagnosis::find_cause(suspect.cause)->remedy);
    if (!is_other) add(lines, "remedy", remedy, Kind::kRemedy);
  }
}

}  // namespace

std::vector<Line> lines_of(const compare::Divergence& divergence) {
  std::vector<Line> lines;
  const std::string record = "step " + std::to_string(divergence.step) + ", channel " +
                             std::string(divergence.channel_name()) +
                             (divergence.tensor.empty() ? "" : ", tensor " + divergence.tensor);
  add(lines, "at",
      (divergence.phase.empty() ? record : divergence.place()) + ", rank " + std::to_string(divergence.rank));
  if (divergence.phase.empty()) add(lines, "between", divergence.left.name() + " and " + divergence.right.name());
  add(lines, "expected", divergence.expected);
  add(lines, "actual", divergence.actual);
  add(lines, "relation", divergence.relation);
  std::vector<std::string> patterns;
  for (const compare::Pattern& pattern : divergence.patterns) patterns.push_back(pattern.text);
  add(lines, "pattern", join(patterns, "; "));
  if (divergence.element) add(lines, "element", divergence.element->text());
  if (divergence.operator_) add(lines, "operator", divergence.operator_->text);
  add(lines, "class", std::string(divergence.class_name()));
  add_causes(lines, divergence.suspects);
  if (divergence.suspects.empty() && divergence.class_) add(lines, "cause", "unknown");
  add(lines, "what", divergence.cause);
  return lines;
}

std::vector<Line> lines_of(const judge::CheckReport& check) {
  std::vector<Line> lines;
  add(lines, "why", check.result.why);
  if (check.result.divergence) {
    for (Line& line : lines_of(*check.result.divergence)) lines.push_back(std::move(line));
  }
  for (const judge::Experiment& experiment : check.experiments)
    add(lines, "tried", experiment.control + ": " + experiment.shows);
  add(lines, "next", check.result.next);
  add(lines, "reproduce", check.reproduce, Kind::kCommand);
  if (!check.decided_by.empty()) add(lines, "decided", check.decided_by + "  docs/rounding.md#" + check.decided_by);
  return lines;
}

std::vector<Line> lines_of(const judge::RunReport& run) {
  std::vector<Line> lines;
  add(lines, "why", run.why);
  if (run.status == judge::Status::kDivergence) add(lines, "class", std::string(name_of(run.class_)));
  if (run.culprit) add(lines, "rank", std::to_string(*run.culprit));
  add_causes(lines, run.suspects);
  add(lines, "log", run.log_tail, Kind::kLog);
  add(lines, "next", run.next);
  add(lines, "reproduce", run.reproduce, Kind::kCommand);
  return lines;
}

namespace {

/// A text without the name of a run: what is left may be the same of another one.
std::string without(const std::string& run, std::string text) {
  for (std::size_t at = text.find(run); !run.empty() && at != std::string::npos; at = text.find(run, at))
    text.erase(at, run.size());
  return text;
}

/// Causes with their evidence, without the name of the run that they were found in.
std::vector<std::string> reasons_of(const compare::Divergence& divergence) {
  std::vector<std::string> reasons;
  for (const compare::Suspect& suspect : divergence.suspects) {
    reasons.push_back(suspect.cause);
    for (const std::string& evidence : suspect.evidence) reasons.push_back(without(divergence.right.name(), evidence));
  }
  return reasons;
}

}  // namespace

bool same_change(const judge::CheckReport& a, const judge::CheckReport& b) {
  const bool are_goldens = a.that == scenario::CheckKind::kGolden && b.that == scenario::CheckKind::kGolden;
  if (!are_goldens || a.status != b.status || !a.result.divergence || !b.result.divergence) return false;
  const std::vector<std::string> reasons = reasons_of(*a.result.divergence);
  return !reasons.empty() && reasons == reasons_of(*b.result.divergence);
}

bool same_finding(const judge::CheckReport& a, const judge::CheckReport& b) {
  const auto place = [](const judge::CheckReport& one) {
    const auto& at = one.result.divergence;
    return at ? at->left.name() + "\n" + at->right.name() + "\n" + at->place_and_rank() + "\n" + at->cause_id() + "\n" +
                    at->expected + "\n" + at->actual
              : "";
  };
  return a.scenario == b.scenario && a.status == b.status && a.expected_failure == b.expected_failure &&
         a.result.why == b.result.why && a.result.divergence.has_value() == b.result.divergence.has_value() &&
         place(a) == place(b);
}

bool same_end(const judge::RunReport& a, const judge::RunReport& b) {
  const bool same_words =
      a.log_tail.empty() ? without(a.run, a.why) == without(b.run, b.why) : a.log_tail == b.log_tail;
  return a.status == b.status && a.outcome == b.outcome && same_words;
}

}  // namespace lockstep::report
