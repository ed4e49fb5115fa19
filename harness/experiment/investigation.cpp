#include "harness/experiment/investigation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/experiment/case.h"
#include "harness/experiment/control.h"
#include "harness/experiment/locate.h"
#include "harness/experiment/one_state.h"
#include "harness/experiment/repeats.h"
#include "harness/experiment/replays.h"
#include "harness/experiment/rounding.h"
#include "harness/experiment/runs.h"
#include "harness/experiment/start.h"

namespace lockstep::experiment {
namespace {

using checks::CheckResult;
using compare::Divergence;
using report::CheckReport;
using report::Evidence;
using report::Status;

/// How often a run that is believed to come out again has done so.
constexpr std::int64_t kReplays = 4;

/// Variants of a check; of a resumption both sides.
std::vector<std::string> variants_of(const scenario::CheckSpec& spec) {
  std::vector<std::string> names = spec.variants;
  for (const std::string& name : {spec.straight, spec.interrupted}) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

/// A control that shows the place of the difference closely.
Control looking_at(Control control, const Case& one) {
  if (one.unstable) return looking_at(std::move(control), *one.unstable);
  return one.differs() ? looking_at(std::move(control), one.at()) : control;
}

/// If one side does not reproduce, the other says nothing more. Variants that are no side of the finding say nothing,
/// either, unless a check up to rounding may turn out to hold for all.
std::vector<std::string> variants_worth_trying(const Case& one) {
  std::vector<std::string> all = variants_of(one.check.spec);
  if (!one.differs()) return all;
  if (one.unstable) return {one.unstable_variant};
  if (one.is_up_to_rounding()) return all;
  std::vector<std::string> sides = all;
  std::erase_if(sides, [&](const std::string& name) {
    return name != variant_of(one.at().left.run) && name != variant_of(one.at().right.run);
  });
  return sides.empty() ? all : sides;
}

/// All cases of one scenario.
struct Group {
  const scenario::Scenario& scenario;
  std::vector<Case> cases;
  std::vector<Start> starts;

  std::vector<std::string> variants() const {
    std::vector<std::string> names;
    for (const Case& one : cases) {
      for (const std::string& name : variants_of(one.check.spec)) names.push_back(name);
    }
    return names;
  }
};

class Investigation {
 public:
  Investigation(report::Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                const std::string& today, const Execute& execute)
      : verdict_(verdict), plan_(plan), evidence_(evidence), today_(today), execute_(execute) {}

  void run() {
    collect();
    if (groups_.empty()) return;
    try {
      try_replay();
      try_float64();
      try_one_state();
      try_replay_often();
      try_replay_twice();
      try_replay_there();
      try_fill();
    } catch (const Error& error) {  // the verdict stands as it was
      for (Group& group : groups_) {
        for (Case& one : group.cases) one.report.experiments.push_back({"control runs", error.problem().what});
      }
    }
    for (Group& group : groups_) {
      for (Case& one : group.cases) {
        report::diagnose_again(one.report, plan_, evidence_, one.check);
        report::settle(one.report, one.check.spec, today_);
      }
    }
  }

 private:
  void collect() {
    for (std::size_t i = 0; i < verdict_.checks.size(); ++i) {
      CheckReport& report = verdict_.checks[i];
      const bool open = report.status == Status::kDivergence || report.status == Status::kInconclusive;
      if (!open) continue;
      if (report.result.divergence && !report.result.divergence->phase.empty()) continue;  // no record is other
      if (report.result.status == CheckResult::Status::kAgree) continue;  // expected to fail, and did not
      const scenario::Scenario& scenario = plan_.scenario(report.scenario);
      const Case one{.report = report, .scenario = scenario, .check = plan_.checks[i]};
      if (!one.differs() && !(one.is_up_to_rounding() && have_all_finished(one))) continue;
      // Checks stand scenario by scenario.
      if (groups_.empty() || groups_.back().scenario.name != scenario.name) groups_.push_back({scenario, {}, {}});
      groups_.back().cases.push_back(one);
    }
    for (Group& group : groups_)
      group.starts = starts_of(group.scenario, group.variants(), Runs(plan_, evidence_, group.scenario.name));
  }

  bool have_all_finished(const Case& one) const {
    const Runs runs(plan_, evidence_, one.scenario.name);
    const std::vector<std::string> sides = one.sides();
    return std::all_of(sides.begin(), sides.end(), [&](const auto& side) { return runs.first_of(side) != nullptr; });
  }

  /// Plans and runs the variants of some cases under a control. Nothing where no case wants it.
  struct Trial {
    plan::Plan plan;
    std::vector<Evidence> evidence;
    Runs runs(const std::string& scenario) const { return {plan, evidence, scenario}; }
    bool has(const Group& group) const {
      return std::any_of(plan.scenarios.begin(), plan.scenarios.end(),
                         [&](const scenario::Scenario& one) { return one.name == group.scenario.name; });
    }
  };
  /// `make`: of the cases of a group that want it, the scenario to run.
  template <typename Wants, typename Make>
  std::optional<Trial> trial_of(const Control& control, Wants wants, Make make) {
    std::vector<scenario::Scenario> scenarios;
    for (Group& group : groups_) {
      std::vector<Case*> cases;
      for (Case& one : group.cases) {
        if (wants(one)) cases.push_back(&one);
      }
      if (cases.empty()) continue;
      try {
        scenarios.push_back(make(group, cases));
      } catch (const InputError& error) {  // no such training exists: the others' can be tried
        for (Case* one : cases) one->note(control, "cannot be tried: " + error.problem().what);
      }
    }
    if (scenarios.empty()) return std::nullopt;
    Trial result{.plan = plan::make_plan(std::move(scenarios)), .evidence = {}};
    result.evidence = execute_(result.plan, control.id);
    return result;
  }

  /// Every case that wants it, of the groups that were tried, and the runs of its scenario.
  template <typename Wants, typename Judge>
  void each(const Trial& trial, Wants wants, Judge judge) {
    for (Group& group : groups_) {
      if (!trial.has(group)) continue;
      const Runs runs = trial.runs(group.scenario.name);
      for (Case& one : group.cases) {
        if (wants(one)) judge(group, one, runs);
      }
    }
  }

  /// The variants of the cases under a control. `looks`: at the places of the differences, closely.
  template <typename Wants>
  std::optional<Trial> trial(const Control& control, Wants wants, bool looks) {
    return trial_of(control, wants, [&](const Group& group, const std::vector<Case*>& cases) {
      std::vector<std::string> variants;
      Control of_group = looks && !group.starts.empty() ? looking_at_start(control) : control;
      for (const Case* one : cases) {
        // Any variant may be the one whose start the others take.
        for (const std::string& name :
             group.starts.empty() ? variants_worth_trying(*one) : variants_of(one->check.spec))
          variants.push_back(name);
        if (looks) of_group = looking_at(std::move(of_group), *one);
      }
      scenario::Scenario scenario = under(of_group, group.scenario, variants);
      return control.one_start ? from_one_start(std::move(scenario), group.starts) : scenario;
    });
  }

  void try_replay() {
    const Control control = replay();
    const auto wants = [](const Case& one) { return !one.is_of_repeats(); };
    const auto replayed = trial(control, wants, /*looks=*/true);
    if (!replayed) return;
    for (Group& group : groups_) {
      if (!replayed->has(group)) continue;
      const Runs before(plan_, evidence_, group.scenario.name);
      const Runs again = replayed->runs(group.scenario.name);
      for (Start& start : group.starts) start.weights = captured_start(again, start.of);
      for (Case& one : group.cases) {
        if (!wants(one)) continue;
        judge_replay(one, control, before, again);
        if (one.differs() && !one.unstable)
          locate(one.at(), again.left(one.at(), true), again.right(one.at(), true),
                 one.is_up_to_rounding() ? Looked::kBehindRounding : Looked::kFromTheStart);
        report::diagnose_again(one.report, plan_, evidence_, one.check);  // what the replay refutes may leave rounding
      }
    }
  }

  /// Runs a non-reproducible side twice more: the first difference of the two is where it is random.
  void try_replay_twice() {
    const Control control = replay_twice();
    const auto wants = [](const Case& one) { return one.differs() && (one.unstable || one.is_of_repeats()); };
    const auto twice = trial(control, wants, /*looks=*/true);
    if (!twice) return;
    each(*twice, wants, [&](const Group&, Case& one, const Runs& runs) { judge_pair(one, control, runs); });
  }

  /// One successful replay may be chance. Findings that steps from one state have shown again need no more, nor do
  /// those whose cause was known before.
  void try_replay_often() {
    const Control control = replay_often(kReplays - 1);
    const auto wants = [&](const Case& one) {
      return one.differs() && !one.is_of_repeats() && !one.came_out_again && (one.unstable || !one.is_told());
    };
    const auto more = trial(control, wants, /*looks=*/false);
    if (!more) return;
    each(*more, wants, [&](const Group& group, Case& one, const Runs& runs) {
      judge_often(one, control, Runs(plan_, evidence_, group.scenario.name), runs);
    });
  }

  /// Where a variant's runs part by the pattern in fresh memory alone. `trials`: with one and with another, in turns.
  static std::optional<Divergence> moved_by_fill(const Group& group, const std::string& variant,
                                                 const std::vector<const Trial*>& trials) {
    std::vector<const trace::RunTrace*> runs[2];
    for (std::size_t i = 0; i < trials.size(); ++i) {
      for (const trace::RunTrace* run : trials[i]->runs(group.scenario.name).all_of(variant))
        runs[i % 2].push_back(run);
    }
    return decided_by(runs[0], runs[1]);
  }

  /// What nobody can explain, or what varies, may be memory that was read before anybody wrote it: then what it held
  /// decides, and nothing else. A coin falls like that, too: what seems to follow the pattern must do so again.
  void try_fill() {
    const auto wants = [](const Case& one) {
      const bool unknown = one.differs() && one.at().suspects.empty() &&
                           one.at().class_ != scenario::Class::kRounding &&
                           !one.found_from_one_state;  // which came out alike too often
      return !one.lost && ((one.differs() && one.varies) || unknown);
    };
    const auto one_way = trial(filled(), wants, /*looks=*/false);
    if (!one_way) return;
    const auto other_way = trial(filled_otherwise(), wants, /*looks=*/false);
    if (!other_way) return;
    for (Group& group : groups_) {
      if (!one_way->has(group) || !other_way->has(group)) continue;
      for (Case& one : group.cases) {
        if (wants(one)) one.follows_fill = variant_that_follows(group, one, {&*one_way, &*other_way});
      }
    }
    const auto follows = [](const Case& one) { return !one.follows_fill.empty(); };
    const auto again = trial(twice_more(filled()), follows, /*looks=*/false);
    const auto otherwise = again ? trial(twice_more(filled_otherwise()), follows, /*looks=*/false) : std::nullopt;
    for (Group& group : groups_) {
      for (Case& one : group.cases) {
        if (!one_way->has(group) || !wants(one)) continue;
        std::vector<const Trial*> trials = {&*one_way, &*other_way};
        if (otherwise) trials.insert(trials.end(), {&*again, &*otherwise});
        judge_fill(group, one, trials, /*confirmed=*/otherwise.has_value());
      }
    }
  }

  static Control twice_more(Control control) {
    control.id += "_again";
    control.repeats = 2;
    return control;
  }

  static std::string variant_that_follows(const Group& group, const Case& one,
                                          const std::vector<const Trial*>& trials) {
    for (const std::string& variant : variants_worth_trying(one)) {
      if (moved_by_fill(group, variant, trials)) return variant;
    }
    return "";
  }

  static void judge_fill(const Group& group, Case& one, const std::vector<const Trial*>& trials, bool confirmed) {
    for (const std::string& variant : variants_worth_trying(one)) {
      for (const Trial* trial : {trials[0], trials[1]}) {
        if (trial->runs(group.scenario.name).all_of(variant).empty())
          return one.note(filled(), variant + " did not finish when replayed");
      }
    }
    const bool follows = confirmed && !one.follows_fill.empty();
    const auto moved = follows ? moved_by_fill(group, one.follows_fill, trials) : std::nullopt;
    if (!moved) return one.note(filled(), "the content of fresh memory has no reproducible effect");
    const std::string seen = one.follows_fill +
                             " follows the pattern in fresh memory, each time: first difference at " +
                             moved->place_and_rank();
    one.note(filled(), seen);
    call_random(one, *moved, one.follows_fill);
    one.at().suspects = {{"mem.uninitialised", {seen}}};
  }

  void try_float64() {
    const Control control = in_float64();
    const auto wants = [this](const Case& one) {
      if (!one.differs()) return one.is_up_to_rounding();
      return may_be_rounding(one, Runs(plan_, evidence_, one.scenario.name));
    };
    const auto in_both = trial(control, wants, /*looks=*/false);
    if (!in_both) return;
    each(*in_both, wants, [&](const Group& group, Case& one, const Runs& after) {
      const Runs before(plan_, evidence_, group.scenario.name);
      if (one.differs()) climb(one, control, before, after);
      if (one.is_up_to_rounding()) settle_rounding(one, control, before, after);
    });
  }

  static void locate_from_one_state(Case& one, const Runs& forced) {
    if (!one.found_from_one_state || one.at().element) return;
    const auto [left, right] = sides_from_one_state(one.at(), forced);
    locate(one.at(), left, right, Looked::kFromOneState);
  }

  /// A difference that counts as rounding must be rounding in each single step, too.
  void try_one_state() {
    const auto wants = [](const Case& one) { return one.asks_one_state; };
    const auto forced = trial_of(one_state(), wants, [](const Group& group, const std::vector<Case*>& cases) {
      return from_one_state(from_one_start(group.scenario, group.starts), cases);
    });
    for (Group& group : groups_) {
      for (Case& one : group.cases) {
        if (wants(one) && (!forced || !forced->has(group)))
          leave_open(one, one_state(), "it may be a mistake in float32 only");
      }
    }
    if (!forced) return;
    each(*forced, wants, [](const Group&, Case& one, const Runs& runs) { judge_one_state(one, runs); });
    const auto parts = [](const Case& one) { return one.parts_from_one_state && !one.found_from_one_state; };
    const auto again = trial_of(another_state(), parts, [](const Group& group, const std::vector<Case*>& cases) {
      return from_another_state(group.scenario, cases);
    });
    if (again) {
      each(*again, parts, [&](const Group& group, Case& one, const Runs& runs) {
        const Runs before(plan_, evidence_, group.scenario.name);
        judge_another_state(one, before, forced->runs(group.scenario.name), runs);
      });
    }
    each(*forced, wants, [](const Group&, Case& one, const Runs& runs) { locate_from_one_state(one, runs); });
    const auto unseen = [](const Case& one) {
      return one.found_from_one_state && !(one.at().element && one.came_out_again);
    };
    const auto there = trial_of(one_state_there(), unseen, [](const Group& group, const std::vector<Case*>& cases) {
      return from_one_state_there(from_one_start(group.scenario, group.starts), cases);
    });
    if (!there) return;
    each(*there, unseen, [&](const Group&, Case& one, const Runs& runs) {
      locate_from_one_state(one, runs);
      judge_one_state_again(one, forced->runs(one.scenario.name), runs);
    });
  }

  /// Element and operator of the differences that float64 has shown.
  void try_replay_there() {
    const auto wants = [](const Case& one) { return one.differs() && one.at().behind_rounding; };
    const auto there = trial(replay_there(), wants, /*looks=*/true);
    if (!there) return;
    each(*there, wants, [](const Group&, Case& one, const Runs& runs) {
      locate(one.at(), runs.left(one.at(), true), runs.right(one.at(), true), Looked::kBehindRounding);
    });
  }

  report::Verdict& verdict_;
  const plan::Plan& plan_;
  const std::vector<Evidence>& evidence_;
  const std::string& today_;
  const Execute& execute_;
  std::vector<Group> groups_;
};

}  // namespace

void investigate(report::Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                 const std::string& today, const Execute& execute) {
  Investigation(verdict, plan, evidence, today, execute).run();
}

}  // namespace lockstep::experiment
