#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/diagnosis/causes.h"
#include "harness/experiment/control.h"
#include "harness/plan/plan.h"
#include "harness/report/judge.h"

namespace lockstep::experiment {

/// One finding that needs control runs, and their results. *Lifetime*: of the verdict's report, the plan.
struct Case {
  report::CheckReport& report;
  const scenario::Scenario& scenario;
  const plan::Check& check;
  std::optional<compare::Divergence> unstable;  ///< where a side did not reproduce
  std::string unstable_variant;
  bool varies = false;                ///< more runs of a side differed too
  std::string follows_fill = {};      ///< variant whose result changes with the fill pattern of fresh memory
  bool lost = false;                  ///< a replay did not finish
  bool small = false;                 ///< the difference is no larger than one sample's effect
  bool asks_one_state = false;        ///< single steps from one state are needed to decide
  bool parts_from_one_state = false;  ///< a step from one state differs, in float32
  bool found_from_one_state = false;  ///< and that step is a mistake
  bool came_out_again = false;        ///< the finding reproduced often enough, as a whole or from one state

  bool differs() const { return report.result.divergence.has_value(); }
  compare::Divergence& at() { return *report.result.divergence; }
  const compare::Divergence& at() const { return *report.result.divergence; }

  /// Whether the cause was known before any control run.
  bool is_told() const {
    return differs() && !at().suspects.empty() && diagnosis::find_cause(at().suspects[0].cause)->is_told;
  }
  bool is_mistake() const { return differs() && at().is_no_rounding; }
  bool is_of_repeats() const { return check.spec.traits().sides == scenario::Sides::kRepeats; }
  bool is_equal() const { return check.spec.traits().wants_same_bits(); }
  bool is_up_to_rounding() const {
    return check.spec.traits().wanted == scenario::Wanted::kUpToRounding ||
           checks::resumes_at_another_world_size(scenario, check.spec);
  }

  /// Variants that the check compares, the resumed one last.
  std::vector<std::string> sides() const {
    return check.spec.variants.empty() ? std::vector{check.spec.straight, check.spec.interrupted} : check.spec.variants;
  }

  void note(const Control& control, std::string shows) { report.experiments.push_back({control.id, std::move(shows)}); }
};

}  // namespace lockstep::experiment
