#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/judge.h"
#include "harness/plan/plan.h"

#include "tests/support/tiny/bench.h"
#include "tests/support/tiny/memory_worker.h"

namespace lockstep::test {

inline constexpr const char* kToday = "2027-06-15";

/// A scenario of tiny trainings that run in memory, judged before any control run.
struct JudgedInMemory {
  Scratch scratch;
  MemoryWorker worker{scratch.path() / "runs"};
  plan::Plan plan;
  std::vector<judge::Evidence> evidence;
  judge::Verdict verdict;

  void judge(const scenario::Scenario& scenario, const std::filesystem::path& golden_root = "") {
    plan = plan::make_plan({scenario});
    evidence = worker.run(plan, "");
    verdict = judge::judge(plan, evidence, golden_root, kToday);
  }
};

/// A scenario of tiny trainings, judged as `lockstep run` would judge it, with its control runs.
struct Investigated : JudgedInMemory {
  Investigated() = default;
  explicit Investigated(const Json& changes) { run(changes); }

  /// `otherwise`: MemoryWorker has it.
  Investigated(const Json& changes, std::function<void(const std::string&, scenario::Variant&)> otherwise) {
    worker.otherwise = std::move(otherwise);
    run(changes);
  }

  void run(const Json& changes) {
    judge(tiny_scenario(changes, scratch), scratch.path() / "golden");
    experiment::investigate(verdict, plan, evidence, kToday, worker.execute());
  }

  const judge::CheckReport& check(std::size_t index = 0) const { return verdict.checks.at(index); }
  const compare::Divergence& at(std::size_t index = 0) const { return *check(index).result.divergence; }

  /// All that is known of a check, for messages.
  std::string told(std::size_t index = 0) const {
    const judge::CheckReport& of = check(index);
    std::string text = "decided by " + of.decided_by + "; " + of.result.why + "\n" + shown("", index);
    if (!of.result.divergence) return text;
    const compare::Divergence& first = *of.result.divergence;
    text += first.place_and_rank() + ": " + first.relation + "; " + first.cause_id() + "\n";
    return text + (first.operator_ ? first.operator_->text + "\n" : "");
  }

  /// What a control run of a check has shown.
  std::string shown(const std::string& control, std::size_t index = 0) const {
    std::string text;
    for (const judge::Experiment& one : check(index).experiments) {
      if (control.empty() || one.control == control) text += one.control + ": " + one.shows + "\n";
    }
    return text;
  }
};

}  // namespace lockstep::test
