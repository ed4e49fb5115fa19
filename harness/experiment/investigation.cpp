#include "harness/experiment/investigation.h"

#include <map>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/experiment/case.h"
#include "harness/experiment/start.h"
#include "harness/experiment/trials.h"

namespace lockstep::experiment {
namespace {

using judge::Evidence;

class Investigation {
 public:
  Investigation(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                const std::string& today, const Execute& execute)
      : verdict_(verdict), plan_(plan), evidence_(evidence), today_(today), execute_(execute) {}

  void run() {
    collect();
    try {
      while (const auto trial = next_trial()) make(*trial);
    } catch (const Error& error) {  // the verdict stands as the facts so far leave it
      each([&](Group&, Case& one) { one.learn(Broken{error.problem().what}); });
    }
    each([this](Group&, Case& one) {
      one.report.result = one.now.result;
      one.report.decided_by = name_of(one.now.row);
      one.report.experiments = one.now.shown;
      judge::diagnose_again(one.report, plan_, evidence_, one.check, one.now.again);
      judge::settle(one.report, one.check.spec, today_);
    });
  }

 private:
  /// Runs of a control, over all scenarios that wanted it.
  struct Ran {
    plan::Plan plan;
    std::vector<Evidence> evidence;
  };

  Runs first_runs(const Group& group) const { return {plan_, evidence_, group.scenario.name}; }

  template <typename Do>
  void each(Do what) {
    for (Group& group : groups_) {
      for (Case& one : group.cases) what(group, one);
    }
  }

  void collect() {
    for (std::size_t i = 0; i < verdict_.checks.size(); ++i) {
      const scenario::Scenario& scenario = plan_.scenario(verdict_.checks[i].scenario);
      auto one = case_of(verdict_.checks[i], scenario, plan_.checks[i], Runs(plan_, evidence_, scenario.name));
      if (!one) continue;
      // Checks stand scenario by scenario.
      if (groups_.empty() || groups_.back().scenario.name != scenario.name) groups_.push_back({scenario});
      groups_.back().cases.push_back(std::move(*one));
    }
    for (Group& group : groups_) {
      std::vector<std::string> variants;
      for (const Case& one : group.cases) {
        for (const std::string& name : variants_of(one.check.spec)) variants.push_back(name);
      }
      group.starts = starts_of(group.scenario, variants, first_runs(group));
    }
  }

  /// The earliest trial that a case waits for: cases that need the same one share its runs.
  std::optional<Trial> next_trial() {
    std::optional<Trial> earliest;
    each([&](Group&, const Case& one) {
      if (one.now.next && (!earliest || *one.now.next < *earliest)) earliest = one.now.next;
    });
    return earliest;
  }

  /// Makes the runs of a trial, and tells their facts to all cases that wait for it.
  void make(Trial trial) {
    for (const Control& control : controls_of(trial)) execute(trial, control);
    for (Group& group : groups_) {
      if (trial == Trial::kReplay) keep_starts(group);
      for (Case& one : group.cases) {
        if (one.now.next == trial) one.learn(trial == Trial::kDiagnosis ? diagnosed(one) : fact_of(trial, group, one));
      }
    }
    if (trial == Trial::kOneState || trial == Trial::kFill) return;  // another trial reads them, too
    for (const Control& control : controls_of(trial)) ran_.erase(control.id);
  }

  void execute(Trial trial, const Control& control) {
    std::vector<scenario::Scenario> scenarios;
    for (Group& group : groups_) {
      std::vector<const Case*> cases;
      for (const Case& one : group.cases) {
        if (one.now.next == trial) cases.push_back(&one);
      }
      if (cases.empty()) continue;
      try {
        scenarios.push_back(scenario_of(trial, control, group, cases));
      } catch (const InputError& error) {  // no such training exists: the others' can be tried
        for (Case& one : group.cases) {
          if (one.now.next == trial) one.learn(Impossible{trial, error.problem().what});
        }
      }
    }
    Ran& ran = ran_[control.id];
    if (scenarios.empty()) return;
    ran.plan = plan::make_plan(std::move(scenarios));
    ran.evidence = execute_(ran.plan, {control.id, computes_otherwise(trial)});
  }

  Fact fact_of(Trial trial, const Group& group, const Case& one) const {
    return read(trial, one, first_runs(group), [&](const std::string& control) -> Runs {
      const Ran& ran = ran_.at(control);
      return {ran.plan, ran.evidence, group.scenario.name};
    });
  }

  Fact diagnosed(Case& one) const {
    one.report.result = one.now.result;
    judge::diagnose_again(one.report, plan_, evidence_, one.check, one.now.again);
    return Diagnosis{*one.report.result.divergence};
  }

  /// Weights that float64 starts from, if the variants draw others.
  void keep_starts(Group& group) const {
    const Ran& ran = ran_.at(std::string(name_of(Trial::kReplay)));
    for (Start& start : group.starts)
      start.weights = captured_start({ran.plan, ran.evidence, group.scenario.name}, start.of);
  }

  judge::Verdict& verdict_;
  const plan::Plan& plan_;
  const std::vector<Evidence>& evidence_;
  const std::string& today_;
  const Execute& execute_;
  std::vector<Group> groups_;
  std::map<std::string, Ran> ran_;  // by control
};

}  // namespace

void investigate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                 const std::string& today, const Execute& execute) {
  Investigation(verdict, plan, evidence, today, execute).run();
}

}  // namespace lockstep::experiment
