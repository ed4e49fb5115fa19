// JUnit's XML: a suite for each scenario, a test case for each check and for each run that did not end well.
// *Source*: the schema of the Jenkins xUnit plugin (junit-10.xsd); GitLab's "Unit test reports".
#include <algorithm>
#include <cstdio>
#include <map>

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

/// Name of the element in a finding's test case; "" where it agrees.
std::string element_of(const Finding& finding) {
  if (finding.fails_as_expected() || finding.status == Status::kUnsupported) return "skipped";
  if (finding.status == Status::kAgree) return "";
  return finding.status == Status::kDivergence ? "failure" : "error";
}

std::string test_case(const std::string& scenario, const Finding& finding) {
  const std::string element = element_of(finding);
  const std::string begin = "    <testcase" + attribute("classname", scenario) + attribute("name", finding.name);
  if (element.empty()) return begin + "/>\n";
  const bool expected = finding.fails_as_expected();
  return begin + "><" + element +
         attribute("type", expected ? "expected failure" : std::string(name_of(finding.status))) +
         attribute("message", expected ? "fails as expected: " + finding.expected_failure : finding.summary) + ">" +
         as_xml(finding.details) + "</" + element + "></testcase>\n";
}

/// Numbers of test cases, by the element in them.
using Counts = std::map<std::string, std::size_t>;

std::string as_attributes(Counts& counts) {
  std::size_t tests = 0;
  for (const auto& [element, count] : counts) tests += count;
  return attribute("tests", std::to_string(tests)) + attribute("failures", std::to_string(counts["failure"])) +
         attribute("errors", std::to_string(counts["error"]));
}

class JunitRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    Counts all;
    std::string suites;
    for (const ScenarioFindings& of : findings_of(verdict, plan)) {
      Counts counts;
      std::string cases;
      for (const Finding& finding : of.findings) {
        ++counts[element_of(finding)];
        ++all[element_of(finding)];
        cases += test_case(of.scenario, finding);
      }
      suites += "  <testsuite" + attribute("name", of.scenario) + as_attributes(counts) +
                attribute("skipped", std::to_string(counts["skipped"])) + ">\n" + cases + "  </testsuite>\n";
    }
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f", verdict.wall_s);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "lockstep") +
           as_attributes(all) + attribute("time", seconds) + ">\n" + suites + "</testsuites>\n";
  }
};

}  // namespace

std::unique_ptr<Renderer> make_junit_renderer() { return std::make_unique<JunitRenderer>(); }

}  // namespace lockstep::report
