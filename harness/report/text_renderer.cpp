#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "harness/base/text.h"
#include "harness/report/lines.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::CheckReport;
using judge::RunReport;
using judge::Status;
using judge::Verdict;

std::string painted(Status status, bool color, std::string text) {
  if (!color) return text;
  const char* code = status == Status::kAgree                                      ? "\033[32m"
                     : status == Status::kDivergence || status == Status::kInvalid ? "\033[31m"
                                                                                   : "\033[33m";
  return code + text + "\033[0m";
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

/// "DIVERGENCE  <of>"
std::string heading(Status status, bool color, const std::string& of) {
  return painted(status, color, upper(name_of(status))) + "  " + printable(without_middle(of)) + "\n";
}

void add_line(std::string& out, const std::string& label, const std::string& value) {
  out += "  " + padded(label, 12) + value + "\n";
}

/// The lines of a log stay lines, and each begins with a sign of ours: runners skip spaces before a command.
void add_log(std::string& out, std::string_view log) {
  std::string label = "log";
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    add_line(out, std::exchange(label, ""), "| " + printable(std::string(log.substr(0, end))));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
}

std::string text_of(const std::vector<Line>& lines) {
  std::string out;
  for (const Line& line : lines) {
    switch (line.kind) {
      case Line::Kind::kText:
      case Line::Kind::kRemedy:
        add_line(out, line.label, printable(without_middle(line.value)));
        break;
      case Line::Kind::kCommand:
        add_line(out, line.label, printable(line.value));
        break;
      case Line::Kind::kLog:
        add_log(out, line.value);
        break;
    }
  }
  return out;
}

std::string table(const Verdict& verdict, const plan::Plan& plan, bool color) {
  std::size_t width = 8;
  for (const scenario::Scenario& scenario : plan.scenarios) width = std::max(width, scenario.name.size());
  std::string out = padded("scenario", width) + "   runs   checks  records compared  verdict\n";
  for (const scenario::Scenario& scenario : plan.scenarios) {
    const auto failed = std::count_if(verdict.runs.begin(), verdict.runs.end(), [&](const RunReport& run) {
      return run.status != Status::kAgree && run.run.rfind(scenario.name + "/", 0) == 0;
    });
    const auto total = std::count_if(plan.runs.begin(), plan.runs.end(),
                                     [&](const plan::Run& run) { return run.scenario == scenario.name; });
    std::size_t checks = 0, good = 0, compared = 0;
    for (const CheckReport& check : verdict.checks) {
      if (check.scenario != scenario.name) continue;
      ++checks;
      good += check.status == Status::kAgree ? 1 : 0;
      compared += check.result.compared;
    }
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, "  %3td/%-3td  %3zu/%-3zu  %16zu  ", total - failed, total, good, checks,
                  compared);
    const Status status = verdict.status_of(scenario.name);
    out +=
        padded(printable(scenario.name), width) + numbers + painted(status, color, std::string(name_of(status))) + "\n";
  }
  return out;
}

std::string details(const RunReport& run, bool color) {
  return "\n" + heading(run.status, color, "run " + run.run + ": " + run.outcome) + text_of(lines_of(run));
}

/// Runs that did not end well; many that ended alike are told once.
std::string details(const std::vector<RunReport>& runs, bool color) {
  std::string out;
  for (std::size_t i = 0; i < runs.size();) {
    out += details(runs[i], color);
    std::vector<std::string> others;
    for (++i; i < runs.size() && same_end(runs[i - 1], runs[i]); ++i) others.push_back(runs[i].run);
    if (!others.empty()) add_line(out, "also", printable(without_middle(join(others, ", "))));
  }
  return out;
}

std::string details(const CheckReport& check, bool color) {
  return "\n" + heading(check.status, color, check.scenario + ": " + name_of_check(check)) + text_of(lines_of(check));
}

/// What checks that agree did not compare: channels, laws. Checks of one scenario mostly lack the same channels: those
/// are told once.
std::string limits(const std::vector<CheckReport>& checks) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::vector<std::string>> alike;
  for (const CheckReport& check : checks) {
    if (check.status == Status::kAgree && !check.not_compared.empty())
      alike[{check.scenario, check.not_compared}].push_back(std::string(name_of(check.that)));
  }
  std::string out;
  for (auto& [of, kinds] : alike) {
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    out += "\nNOTE  " + printable(of.first) + ": " + join(kinds, ", ") + " did not compare " + join(of.second, ", ") +
           ": not recorded on every side\n";
  }
  for (const CheckReport& check : checks) {
    if (check.status != Status::kAgree || check.result.divergence || check.result.why.empty()) continue;
    out += "\nNOTE  " + printable(check.scenario) + ": checks." + std::to_string(check.index) + " " +
           std::string(name_of(check.that)) + ": " + printable(check.result.why) + "\n";
  }
  return out;
}

/// A line for each check that agrees.
std::string agreements(const std::vector<CheckReport>& checks, bool color) {
  std::string out;
  for (const CheckReport& check : checks) {
    if (check.status != Status::kAgree) continue;
    const std::string how = check.expected_failure.empty() ? std::to_string(check.result.compared) + " records compared"
                                                           : "fails as expected: " + check.expected_failure;
    out += heading(check.status, color, check.scenario + ": " + name_of_check(check) + ": " + how);
  }
  return out.empty() ? "" : "\n" + out;
}

bool says_it_all(const CheckReport& first, const CheckReport& later) {
  return same_finding(first, later) || same_change(first, later);
}

/// Checks that do not hold. Those that found the same, and goldens that differ for one reason, are told once.
std::string details(const std::vector<CheckReport>& checks, bool color) {
  std::string out;
  std::vector<const CheckReport*> told;
  for (auto check = checks.begin(); check != checks.end(); ++check) {
    const auto is_its_reason = [&](const CheckReport* other) { return says_it_all(*other, *check); };
    if (check->status == Status::kAgree || std::any_of(told.begin(), told.end(), is_its_reason)) continue;
    told.push_back(&*check);
    out += details(*check, color);
    std::vector<std::string> others;
    for (auto later = check + 1; later != checks.end(); ++later) {
      if (says_it_all(*check, *later)) others.push_back(later->scenario + ": " + name_of_check(*later));
    }
    if (!others.empty()) add_line(out, "also", printable(without_middle(join(others, ", "))));
  }
  return out;
}

class TextRenderer : public Renderer {
 public:
  TextRenderer(bool color, Verbosity verbosity) : color_(color), verbosity_(verbosity) {}

  std::string render(const Verdict& verdict, const plan::Plan& plan) const override {
    std::string out = verbosity_ == Verbosity::kQuiet ? "" : table(verdict, plan, color_);
    if (verbosity_ == Verbosity::kVerbose) out += agreements(verdict.checks, color_);
    std::vector<RunReport> bad = verdict.runs;
    std::erase_if(bad, [](const RunReport& run) { return run.status == Status::kAgree; });
    out += details(bad, color_);
    out += details(verdict.checks, color_);
    out += limits(verdict.checks);
    for (const std::string& warning : verdict.warnings)
      out += "\nWARNING  " + printable(without_middle(warning)) + "\n";
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", verdict.wall_s);
    const Status status = verdict.status();
    out += "\n" + painted(status, color_, std::string(name_of(status))) + ": " + std::to_string(plan.scenarios.size()) +
           (plan.scenarios.size() == 1 ? " scenario, " : " scenarios, ") + std::to_string(verdict.runs_finished) +
           " of " + std::to_string(verdict.runs_total) + " runs finished, " + seconds + " s\n";
    return verbosity_ == Verbosity::kQuiet ? out.substr(1) : out;  // without the blank line behind the table
  }

 private:
  bool color_;
  Verbosity verbosity_;
};

}  // namespace

std::string name_of_check(const CheckReport& check) {
  return "checks." + std::to_string(check.index) + " " + std::string(name_of(check.that)) + " (" +
         join(check.variants, ", ") + ")";
}

std::string to_text(const CheckReport& check) { return details(check, /*color=*/false).substr(1); }

std::string to_text(const RunReport& run) { return details(run, /*color=*/false).substr(1); }

std::string to_text(const compare::Divergence& divergence) { return text_of(lines_of(divergence)); }

std::unique_ptr<Renderer> make_text_renderer(bool color, Verbosity verbosity) {
  return std::make_unique<TextRenderer>(color, verbosity);
}

}  // namespace lockstep::report
