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

/// Where a finding is, in the runs of its sides.
compare::Location place_of(const compare::Divergence& at, const Side& left, const Side& right);

/// Runs of one scenario, in a plan that was executed. *Lifetime*: of plan and evidence.
class Runs {
 public:
  Runs(const plan::Plan& plan, const std::vector<report::Evidence>& evidence, std::string scenario);

  /// "w3/0" or "w3/0 rank 1"; of another repeat, the first one where `any_repeat`.
  Side side(const std::string& name, std::int64_t rank, bool any_repeat = false) const;

  /// A finding's sides.
  Side left(const compare::Divergence& at, bool any_repeat = false) const;
  Side right(const compare::Divergence& at, bool any_repeat = false) const;

  /// The first run of a variant that left a trace; null where none did.
  const trace::RunTrace* first_of(const std::string& variant) const;
  std::vector<const trace::RunTrace*> all_of(const std::string& variant) const;

 private:
  const plan::Plan& plan_;
  const std::vector<report::Evidence>& evidence_;
  std::string scenario_;
};

}  // namespace lockstep::experiment
