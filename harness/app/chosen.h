#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "harness/app/pipeline.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// A part of a plan's checks, with their reports: control runs are made for them alone.
struct Chosen {
  plan::Plan plan;
  judge::Verdict verdict;
};

/// Leaves checks and reports of the places that `wanted` names.
template <typename Wanted>
Chosen choose(const plan::Plan& plan, const judge::Verdict& verdict, Wanted wanted) {
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

/// Control runs for the checks that `wanted` names; the verdict takes their results.
template <typename Wanted>
void investigate_chosen(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                        const RunOptions& options, const std::filesystem::path& runs_root, Wanted wanted) {
  Chosen chosen = choose(plan, verdict, wanted);
  investigate(chosen.verdict, chosen.plan, evidence, options, runs_root);
  std::size_t next = 0;
  for (std::size_t check = 0; check < verdict.checks.size(); ++check) {
    if (wanted(check)) verdict.checks[check] = std::move(chosen.verdict.checks[next++]);
  }
}

}  // namespace lockstep::app
