#pragma once

#include <string>
#include <vector>

#include "harness/report/judge.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {

/// A plan of one tiny scenario, run in memory and judged as `lockstep run` would.
class Judged {
 public:
  explicit Judged(const Json& changes) : plan(plan::make_plan({tiny_scenario(changes, scratch)})) {
    for (const plan::Run& run : plan.runs) {
      trace::RunTrace trace =
          tiny_run(plan.scenarios[0].variant(run.variant), run.variant + "/" + std::to_string(run.repeat));
      for (trace::Trace& rank : trace.ranks) rank.header.update(report::header_of(run));
      traces.push_back(std::move(trace));
      outcomes.push_back({.run = run.name, .status = launch::RunOutcome::Status::kFinished});
    }
  }

  /// Folder of a run's traces.
  std::filesystem::path folder(std::size_t run) const { return scratch.path() / "runs" / plan.runs[run].name; }

  /// Writes the traces of the runs that finished and reads them again.
  std::vector<report::Evidence> evidence() const {
    for (std::size_t i = 0; i < traces.size(); ++i) {
      if (outcomes[i].status == launch::RunOutcome::Status::kFinished && !std::filesystem::exists(folder(i)))
        write_run(folder(i), traces[i]);
    }
    return report::read_evidence(plan, outcomes, scratch.path() / "runs");
  }

  report::Verdict verdict(const std::string& today = "2027-06-15") const {
    return report::judge(plan, evidence(), scratch.path() / "golden", today);
  }

  Scratch scratch;
  mutable plan::Plan plan;  ///< completed by what the traces tell
  std::vector<trace::RunTrace> traces;
  std::vector<launch::RunOutcome> outcomes;
};

/// Variants "a" and "b", held equal.
inline Json equal_pair(const Json& expect = Json()) {
  Json check = {{"that", "equal"}, {"variants", {"a", "b"}}};
  if (!expect.is_null()) check["expect"] = expect;
  return {{"checks", {check}}};
}

}  // namespace lockstep::test
