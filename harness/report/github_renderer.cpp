// Annotations of GitHub Actions: commands that a step prints. *Source*: GitHub's "Workflow commands".
#include <string_view>

#include "harness/base/text.h"
#include "harness/report/findings.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::Status;

/// GitHub shows so many errors of a step, and so many warnings.
constexpr std::size_t kMostAnnotations = 10;

/// Text of a command, or of one of its properties.
std::string as_command(const std::string& text, bool is_property) {
  std::string out;
  for (const char c : printable(without_middle(text))) {
    const bool acts = c == '%' || (is_property && (c == ':' || c == ','));
    if (!acts) {
      out += c;
    } else {
      out += c == '%' ? "%25" : c == ':' ? "%3A" : "%2C";
    }
  }
  return out;
}

/// Errors for what is red; warnings for what is open.
class GithubRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    std::string out;
    std::size_t errors = 0, warnings = 0, left_out = 0;
    bool lacks_errors = false;
    for (const ScenarioFindings& of : findings_of(verdict, plan)) {
      for (const Finding& finding : of.findings) {
        if (finding.status == Status::kAgree) continue;
        const bool is_warning = finding.status == Status::kInconclusive || finding.status == Status::kUnsupported;
        std::size_t& count = is_warning ? warnings : errors;
        if (count + 1 >= kMostAnnotations) {  // the last place says how many are left out
          ++left_out;
          lacks_errors = lacks_errors || !is_warning;
          continue;
        }
        ++count;
        out +=
            command(is_warning ? "warning" : "error", of.file,
                    of.scenario + ": " + finding.name + ": " + std::string(name_of(finding.status)), finding.summary);
      }
    }
    if (left_out > 0)
      out += command(lacks_errors ? "error" : "warning", "", "lockstep",
                     std::to_string(left_out) + " more findings are in the other reports");
    return out + "::notice title=lockstep::" + std::string(name_of(verdict.status())) + ": " +
           std::to_string(plan.scenarios.size()) + " scenarios, " + std::to_string(verdict.checks.size()) +
           " checks, " + std::to_string(verdict.runs_finished) + " of " + std::to_string(verdict.runs_total) +
           " runs finished\n";
  }

 private:
  static std::string command(const char* kind, const std::string& file, const std::string& title,
                             const std::string& text) {
    return std::string("::") + kind + " " + (file.empty() ? "" : "file=" + as_command(file, true) + ",") +
           "title=" + as_command(title, true) + "::" + as_command(text, false) + "\n";
  }
};

}  // namespace

std::unique_ptr<Renderer> make_github_renderer() { return std::make_unique<GithubRenderer>(); }

}  // namespace lockstep::report
