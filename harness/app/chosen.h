#pragma once

#include <cstddef>

#include "harness/plan/plan.h"
#include "harness/report/verdict.h"

namespace lockstep::app {

/// A part of a plan's checks, with their reports: control runs are made for them alone.
struct Chosen {
  plan::Plan plan;
  report::Verdict verdict;
};

/// Leaves checks and reports of the places that `wanted` names.
template <typename Wanted>
Chosen choose(const plan::Plan& plan, const report::Verdict& verdict, Wanted wanted) {
  Chosen chosen{.plan = plan, .verdict = verdict};
  chosen.plan.checks.clear();
  chosen.verdict.checks.clear();
  for (std::size_t i = 0; i < plan.checks.size(); ++i) {
    if (!wanted(i)) continue;
    chosen.plan.checks.push_back(plan.checks[i]);
    chosen.verdict.checks.push_back(verdict.checks[i]);
  }
  return chosen;
}

}  // namespace lockstep::app
