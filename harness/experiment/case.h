#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/decision/decision.h"
#include "harness/experiment/start.h"
#include "harness/judge/judge.h"
#include "harness/plan/plan.h"

namespace lockstep::experiment {

/// A finding that needs control runs, its facts and what they decide. *Lifetime*: of the verdict's report, the plan.
struct Case {
  judge::CheckReport& report;
  const scenario::Scenario& scenario;
  const plan::Check& check;
  Finding finding;
  std::vector<Fact> facts = {};
  Decision now = decision::decide(finding, facts);

  void learn(Fact fact) {
    facts.push_back(std::move(fact));
    now = decision::decide(finding, facts);
  }

  bool differs() const { return now.differs(); }
  const Divergence& at() const { return now.at(); }
  const std::vector<std::string>& sides() const { return finding.sides; }
};

/// All cases of one scenario.
struct Group {
  const scenario::Scenario& scenario;
  std::vector<Case> cases = {};
  std::vector<Start> starts = {};
};

/// The case of a check's report; `before`: the first runs. Nothing if no control run can say more.
std::optional<Case> case_of(judge::CheckReport& report, const scenario::Scenario& scenario, const plan::Check& check,
                            const Runs& before);

/// Variants of a check; of a resumption both sides.
std::vector<std::string> variants_of(const scenario::CheckSpec& spec);

/// Variants whose runs can say more. If one side does not reproduce, the other says nothing more. Variants that are no
/// side of the finding say nothing, either, unless a check up to rounding may turn out to hold for all.
std::vector<std::string> variants_worth_trying(const Case& one);

}  // namespace lockstep::experiment
