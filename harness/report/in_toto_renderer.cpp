// An in-toto statement on the files that were judged, for a policy that admits only what was tested.
// *Source*: in-toto Attestation Framework 1.1, "Statement" and the predicate "Test Result" 0.1.
#include <map>

#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/report/findings.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

/// SHA-256 by name.
using Digests = std::map<std::string, std::string>;

/// Scenarios, and the goldens that they were compared with.
Digests files_judged(const judge::Verdict& verdict, const plan::Plan& plan) {
  Digests files;
  for (const scenario::Scenario& scenario : plan.scenarios) files[scenario.file.string()] = scenario.sha256;
  for (const judge::CheckReport& check : verdict.checks) files.insert(check.goldens.begin(), check.goldens.end());
  return files;
}

/// What each variant computes: a recipe's digest covers its data, too.
Digests recipes_of(const plan::Plan& plan) {
  Digests recipes;
  for (const plan::Run& run : plan.runs) recipes[run.scenario + "/" + run.variant] = run.train_digest;
  return recipes;
}

Json descriptors_of(const Digests& digests) {
  Json all = Json::array();
  for (const auto& [name, digest] : digests) all.push_back({{"name", name}, {"digest", {{"sha256", digest}}}});
  return all;
}

/// A test passes only if the exit code is 0: for a policy, what is open or unsupported has failed.
Json predicate_of(const judge::Verdict& verdict, const plan::Plan& plan) {
  Json passed = Json::array(), warned = Json::array(), failed = Json::array();
  for (const ScenarioFindings& of : findings_of(verdict, plan)) {
    for (const Finding& finding : of.findings) {
      Json& tests = finding.fails_as_expected() ? warned : finding.status == judge::Status::kAgree ? passed : failed;
      tests.push_back(of.scenario + ": " + finding.name);
    }
  }
  const bool fails = judge::exit_code(verdict.status()) != 0;
  const bool warns = !warned.empty() || !verdict.warnings.empty();
  return {{"result", fails   ? "FAILED"
                     : warns ? "WARNED"
                             : "PASSED"},
          {"configuration", descriptors_of(recipes_of(plan))},
          {"passedTests", passed},
          {"warnedTests", warned},
          {"failedTests", failed}};
}

class InTotoRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    LOCKSTEP_CHECK(!plan.scenarios.empty());  // a statement has a subject
    return page_of({{"_type", "https://in-toto.io/Statement/v1"},
                    {"subject", descriptors_of(files_judged(verdict, plan))},
                    {"predicateType", "https://in-toto.io/attestation/test-result/v0.1"},
                    {"predicate", predicate_of(verdict, plan)}});
  }
};

}  // namespace

std::unique_ptr<Renderer> make_in_toto_renderer() { return std::make_unique<InTotoRenderer>(); }

}  // namespace lockstep::report
