#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "harness/judge/judge.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {

/// A plan of one tiny scenario, run in memory and judged as `lockstep run` would.
class Judged {
 public:
  explicit Judged(const Json& changes) : plan(plan::make_plan({tiny_scenario(changes, scratch)})) {
    for (const plan::Run& run : plan.runs) {
      trace::RunTrace trace =
          tiny_run(plan.scenarios[0].variant(run.variant), run.variant + "/" + std::to_string(run.repeat));
      for (trace::Trace& rank : trace.ranks) {
        rank.header.update(judge::header_of(run));
        for (trace::Step& step : rank.steps) complete(step);
      }
      traces.push_back(std::move(trace));
      outcomes.push_back({.run = run.name, .status = launch::RunOutcome::Status::kFinished});
    }
  }

  /// Folder of a run's traces.
  std::filesystem::path folder(std::size_t run) const { return scratch.path() / "runs" / plan.runs[run].name; }

  /// Writes the traces of the runs that finished and reads them again.
  std::vector<judge::Evidence> evidence() const {
    for (std::size_t i = 0; i < traces.size(); ++i) {
      if (outcomes[i].status == launch::RunOutcome::Status::kFinished && !std::filesystem::exists(folder(i)))
        write_run(folder(i), traces[i]);
    }
    return judge::read_evidence(plan, outcomes, scratch.path() / "runs");
  }

  judge::Verdict verdict(const std::string& today = "2027-06-15") const {
    return judge::judge(plan, evidence(), scratch.path() / "golden", today);
  }

  /// Adds what a worker records and no tiny training has: labels, and the place of a generator.
  static void complete(trace::Step& step) {
    const auto x = std::find_if(step.records.begin(), step.records.end(),
                                [](const trace::Record& record) { return record.channel == trace::Channel::kInput; });
    if (x != step.records.end()) {
      x->rows.assign(static_cast<std::size_t>(x->shape[0]), 0);
      trace::Record y = *x;
      y.name = "y";
      step.records.insert(std::next(x), std::move(y));
    }
    for (trace::Record& record : step.records) {
      if (record.channel == trace::Channel::kRng) record.integers = {0, 0};
    }
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
