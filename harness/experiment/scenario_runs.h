#pragma once

#include <string>
#include <vector>

#include "harness/compare/ladder.h"
#include "harness/decision/decision.h"
#include "harness/diagnosis/scene.h"
#include "harness/judge/judge.h"
#include "harness/plan/plan.h"

namespace lockstep::experiment {

using diagnosis::Side;

// The language of facts is this folder's, too.
using decision::AnotherState, decision::Broken, decision::Closeup, decision::Decision, decision::Diagnosis,
    decision::Divergence, decision::Fact, decision::Fill, decision::FillAgain, decision::Filled, decision::Finding,
    decision::Float64, decision::Impossible, decision::InFloat64, decision::OneState, decision::OneStateThere,
    decision::Repeated, decision::Replay, decision::ReplayOften, decision::ReplayThere, decision::ReplayTwice,
    decision::Steps, decision::Trial, decision::variant_of;

/// Place of a finding in the runs of its sides.
compare::Location place_of(const compare::Divergence& at, const Side& left, const Side& right);

/// Runs of one scenario in an executed plan. *Lifetime*: of plan and evidence.
class Runs {
 public:
  Runs(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence, std::string scenario);

  /// A rank of the run "w3/0". `any_repeat`: any repeat of the variant will do, the first one with a trace.
  Side side(const std::string& name, std::int64_t rank, bool any_repeat = false) const;

  /// Sides of a finding.
  Side left(const compare::Divergence& at, bool any_repeat = false) const;
  Side right(const compare::Divergence& at, bool any_repeat = false) const;

  /// First run of a variant with a trace; null if there is none.
  const trace::RunTrace* first_of(const std::string& variant) const;
  std::vector<const trace::RunTrace*> all_of(const std::string& variant) const;

 private:
  const plan::Plan& plan_;
  const std::vector<judge::Evidence>& evidence_;
  std::string scenario_;
};

}  // namespace lockstep::experiment
