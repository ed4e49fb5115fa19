// JUnit's XML: a suite for each scenario, a test case for each check and for each run that did not end well.
// *Source*: the schema of the Jenkins xUnit plugin (junit-10.xsd); GitLab's "Unit test reports".
#include <algorithm>
#include <cstdio>

#include "harness/base/text.h"
#include "harness/report/findings.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::Status;

/// Text of an element or an attribute. Line breaks stay; what XML cannot hold is escaped as `printable` does.
std::string as_xml(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    for (const char c : printable(text.substr(at, end - at))) {
      switch (c) {
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '&':
          out += "&amp;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          out += c;
      }
    }
    if (end < text.size()) out += "&#10;";
    at = end + 1;
  }
  return out;
}

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + as_xml(value) + "\"";
}

/// What a test case holds: nothing where it agrees.
std::string outcome_of(const Finding& finding) {
  if (finding.fails_as_expected())
    return "<skipped" + attribute("message", "fails as expected: " + finding.expected_failure) + "/>";
  if (finding.status == Status::kAgree) return "";
  if (finding.status == Status::kUnsupported) return "<skipped" + attribute("message", finding.summary) + "/>";
  const char* element = finding.status == Status::kDivergence ? "failure" : "error";
  return std::string("<") + element + attribute("type", std::string(name_of(finding.status))) +
         attribute("message", finding.summary) + ">" + as_xml(finding.details) + "</" + element + ">";
}

/// Numbers of test cases, as attributes.
std::string counted(const std::vector<Finding>& all, const std::string& scenario) {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  for (const Finding& finding : all) {
    if (!scenario.empty() && finding.scenario != scenario) continue;
    const std::string outcome = outcome_of(finding);
    ++tests;
    failures += outcome.starts_with("<failure") ? 1 : 0;
    errors += outcome.starts_with("<error") ? 1 : 0;
    skipped += outcome.starts_with("<skipped") ? 1 : 0;
  }
  return attribute("tests", std::to_string(tests)) + attribute("failures", std::to_string(failures)) +
         attribute("errors", std::to_string(errors)) +
         (scenario.empty() ? "" : attribute("skipped", std::to_string(skipped)));
}

class JunitRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    const std::vector<Finding> all = findings_of(verdict, plan);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f", verdict.wall_s);
    std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "lockstep") +
                      counted(all, "") + attribute("time", seconds) + ">\n";
    for (const scenario::Scenario& scenario : plan.scenarios) {
      out += "  <testsuite" + attribute("name", scenario.name) + counted(all, scenario.name) + ">\n";
      for (const Finding& finding : all) {
        if (finding.scenario != scenario.name) continue;
        const std::string outcome = outcome_of(finding);
        out += "    <testcase" + attribute("classname", finding.scenario) + attribute("name", finding.name) +
               (outcome.empty() ? "/>\n" : ">" + outcome + "</testcase>\n");
      }
      out += "  </testsuite>\n";
    }
    return out + "</testsuites>\n";
  }
};

}  // namespace

std::unique_ptr<Renderer> make_junit_renderer() { return std::make_unique<JunitRenderer>(); }

}  // namespace lockstep::report
