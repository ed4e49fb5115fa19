#pragma once

#include <string>
#include <vector>

#include "harness/compare/ladder.h"
#include "harness/diagnosis/scene.h"
#include "harness/plan/plan.h"
#include "harness/report/judge.h"

namespace lockstep::experiment {

/// "w3" of the run "w3/0".
inline std::string variant_of(const std::string& run) { return run.substr(0, run.rfind('/')); }

using diagnosis::Side;

/// Place of a finding in the runs of its sides.
compare::Location place_of(const compare::Divergence& at, const Side& left, const Side& right);

/// Runs of one scenario in an executed plan. *Lifetime*: of plan and evidence.
class Runs {
 public:
  Runs(const plan::Plan& plan, const std::vector<report::Evidence>& evidence, std::string scenario);

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
  const std::vector<report::Evidence>& evidence_;
  std::string scenario_;
};

}  // namespace lockstep::experiment
