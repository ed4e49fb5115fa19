#include "harness/experiment/investigation.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/compare/pattern.h"
#include "harness/experiment/case.h"
#include "harness/experiment/control.h"
#include "harness/experiment/one_state.h"
#include "harness/experiment/repeats.h"
#include "harness/experiment/rounding.h"
#include "harness/experiment/runs.h"
#include "harness/experiment/start.h"

namespace lockstep::experiment {
namespace {

namespace fs = std::filesystem;

using compare::CheckResult;
using compare::Divergence;
using report::CheckReport;
using report::Evidence;
using report::Status;

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

/// Where one side does not come out again, the other tells nothing more.
std::vector<std::string> variants_worth_trying(const Case& one) {
  const bool varies = one.unstable && one.differs();
  return varies ? std::vector{one.unstable_variant} : variants_of(one.check.spec);
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
      try_replay_often();
      try_replay_twice();
      try_float64();
      try_one_state();
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
      if (!open || (!report.result.divergence && report.that != "rounding")) continue;
      if (report.result.divergence && !report.result.divergence->phase.empty()) continue;  // no record is other
      if (report.result.status == CheckResult::Status::kAgree) continue;  // expected to fail, and did not
      const scenario::Scenario& scenario = plan_.scenario(report.scenario);
      // Checks stand scenario by scenario.
      if (groups_.empty() || groups_.back().scenario.name != scenario.name) groups_.push_back({scenario, {}, {}});
      groups_.back().cases.push_back({.report = report, .scenario = scenario, .check = plan_.checks[i]});
    }
    for (Group& group : groups_)
      group.starts = starts_of(group.scenario, group.variants(), Runs(plan_, evidence_, group.scenario.name));
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
        for (const std::string& name : variants_worth_trying(*one)) variants.push_back(name);
        if (looks) of_group = looking_at(std::move(of_group), *one);
      }
      scenario::Scenario scenario = under(of_group, group.scenario, variants);
      return control.one_start ? from_one_start(std::move(scenario), group.starts) : scenario;
    });
  }

  void try_replay() {
    const Control control = replay();
    const auto wants = [](const Case& one) { return one.check.spec.that != "repeatable"; };
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
      }
    }
  }

  /// What does not come out again, twice more: where two runs of one training part is where it is random.
  void try_replay_twice() {
    const Control control = replay_twice();
    const auto wants = [](const Case& one) {
      return one.differs() && (one.unstable || one.check.spec.that == "repeatable");
    };
    const auto twice = trial(control, wants, /*looks=*/true);
    if (!twice) return;
    each(*twice, wants, [&](const Group&, Case& one, const Runs& runs) { judge_pair(one, control, runs); });
  }

  /// What came out again once may do so by chance.
  void try_replay_often() {
    const Control control = replay_often();
    const auto wants = [](const Case& one) { return one.differs() && one.check.spec.that != "repeatable"; };
    const auto often = trial(control, wants, /*looks=*/false);
    if (!often) return;
    each(*often, wants, [&](const Group& group, Case& one, const Runs& runs) {
      judge_often(one, control, Runs(plan_, evidence_, group.scenario.name), runs);
    });
  }

  /// A side that came out again must do so each time; one that did not may have been disturbed once.
  static void judge_often(Case& one, const Control& control, const Runs& before, const Runs& often) {
    for (const trace::RunTrace* run : runs_of(one, before)) {
      const std::string variant = variant_of(run->run);
      if (one.unstable && variant != one.unstable_variant) continue;
      const std::vector<const trace::RunTrace*> again = often.all_of(variant);
      if (again.empty()) {
        one.note(control, variant + " did not finish again");
        continue;
      }
      const auto apart = not_alike(one.unstable ? *again[0] : *run, again);
      if (!apart) continue;
      one.note(control, run->run + " does not come out again each time: first other at " + apart->place_and_rank());
      call_random(one, *apart, variant);
      one.at().element.reset();  // of two sides that are random
      one.at().operator_.reset();
      return;
    }
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
      const bool unknown = one.differs() && one.at().suspects.empty() && one.at().class_ != "rounding" &&
                           !one.parts_from_one_state;  // which came out alike too often
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
          return one.note(filled(), variant + " did not finish again");
      }
    }
    const bool follows = confirmed && !one.follows_fill.empty();
    const auto moved = follows ? moved_by_fill(group, one.follows_fill, trials) : std::nullopt;
    if (!moved) return one.note(filled(), "what fresh memory holds makes no difference that repeats");
    const std::string seen = one.follows_fill +
                             " comes out otherwise where fresh memory holds another pattern, and each time the same "
                             "with one: first other at " +
                             moved->place_and_rank();
    one.note(filled(), seen);
    call_random(one, *moved, one.follows_fill);
    one.at().suspects = {{"mem.uninitialised", {seen}}};
  }

  static void call_random(Case& one, const Divergence& where, const std::string& variant) {
    if (!one.unstable) {
      one.unstable = where;
      one.unstable_variant = variant;
    }
    mark_random(one);
  }

  static void mark_random(Case& one) {
    one.varies = true;
    one.at().again = compare::Again::kEachTimeOtherwise;
    one.at().class_ = "nondeterminism";
  }

  static void judge_pair(Case& one, const Control& control, const Runs& twice) {
    const std::string variant = one.unstable ? one.unstable_variant : variant_of(one.at().left);
    const Side first = twice.side(variant + "/0", one.at().rank), second = twice.side(variant + "/1", one.at().rank);
    if (first.run == nullptr || second.run == nullptr) return one.note(control, variant + " did not finish again");
    const auto apart = part_bitwise(*first.run, *second.run);
    if (!apart && one.varies) return;
    if (!apart)
      return one.note(control, variant + " came out twice alike: what was seen before is rare, or was one disturbance");
    mark_random(one);
    one.note(control, variant + " comes out otherwise each time: first other at " + apart->place_and_rank());
    Divergence here = *apart;
    const auto at_rank = static_cast<std::size_t>(here.rank);
    locate(here, {first.run, at_rank}, {second.run, at_rank}, Looked::kFromTheStart);
    if (here.element) one.note(control, "element " + here.element->text());
    if (!here.operator_) return;
    one.at().operator_ = here.operator_;
    one.at().suspects.clear();  // what is known of the operator may say more
  }

  /// What the addends of a reduced gradient went through, if they were all captured.
  static std::optional<compare::Detour> detour_in(const Side& side, const Divergence& at) {
    const auto captured = [&](const trace::Trace& rank, trace::Channel channel) {
      return trace::read_captured(fs::path(rank.origin).parent_path(), at.step, rank.rank, channel, at.tensor);
    };
    std::vector<trace::StoredTensor> own;
    for (const trace::Trace& rank : side.run->ranks) {
      auto tensor = captured(rank, trace::Channel::kGradientLocal);
      if (!tensor) return std::nullopt;
      own.push_back(std::move(*tensor));
    }
    const auto reduced = captured(side.run->ranks[side.rank], trace::Channel::kGradient);
    return reduced ? compare::detour_of(own, *reduced) : std::nullopt;
  }

  /// Where two runs were looked at. Behind rounding, every operator has other inputs.
  enum class Looked { kFromTheStart, kBehindRounding, kFromOneState };

  /// Element, operator and detour of a difference, from what was captured of both sides.
  static void locate(Divergence& at, const Side& left, const Side& right, Looked looked) {
    for (const Side& side : {right, left}) {
      const bool reduced = side.run != nullptr && at.channel == trace::Channel::kGradient;
      if (reduced && !at.detour) at.detour = detour_in(side, at);
    }
    if (left.run == nullptr || right.run == nullptr) return;
    const trace::Trace& a = left.run->ranks[left.rank];
    const trace::Trace& b = right.run->ranks[right.rank];
    const fs::path left_folder = fs::path(a.origin).parent_path(), right_folder = fs::path(b.origin).parent_path();
    const auto x = trace::read_captured(left_folder, at.step, a.rank, at.channel, at.tensor);
    const auto y = trace::read_captured(right_folder, at.step, b.rank, at.channel, at.tensor);
    if (x && y) at.element = compare::first_unequal_element(*x, *y, looked != Looked::kFromTheStart);
    const bool computed = at.channel != trace::Channel::kSamples && at.channel != trace::Channel::kInput;
    const fs::path left_log = trace::captured_operators_path(left_folder, at.step, a.rank);
    const fs::path right_log = trace::captured_operators_path(right_folder, at.step, b.rank);
    if (left.run == right.run || !computed || !compare::same_shape(*left.run, *right.run)) return;
    // Where the two part before, the step's first operator that differs is not where they began to.
    const trace::Channel reached = looked == Looked::kFromTheStart ? trace::Channel::kSamples : at.channel;
    const std::int64_t begin = looked == Looked::kFromOneState ? at.step : trace::kInitialStep;
    if (compare::part_before(*left.run, *right.run, at.step, reached, begin)) return;
    if (!fs::exists(left_log) || !fs::exists(right_log)) return;
    at.operator_ = compare::first_operator(trace::read_operators(left_log), trace::read_operators(right_log));
  }

  /// The runs whose records the finding is about; of a check up to rounding all of them: what float64 settles for the
  /// trainings must hold for every run.
  static std::vector<const trace::RunTrace*> runs_of(const Case& one, const Runs& before) {
    std::vector<const trace::RunTrace*> runs;
    if (one.is_up_to_rounding()) {
      for (const std::string& variant : one.sides()) {
        for (const trace::RunTrace* run : before.all_of(variant)) runs.push_back(run);
      }
    } else if (one.differs()) {
      for (const std::string& name : {one.at().left, one.at().right}) {
        const trace::RunTrace* run = before.side(name, one.at().rank).run;
        if (run != nullptr && std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
      }
    }
    return runs;
  }

  static void judge_replay(Case& one, const Control& control, const Runs& before, const Runs& again) {
    const std::vector<const trace::RunTrace*> runs = runs_of(one, before);
    for (const trace::RunTrace* run : runs) {
      const trace::RunTrace* second = again.side(run->run, 0, /*any_repeat=*/true).run;
      if (second == nullptr) {
        one.lost = true;
        one.note(control, run->run + " did not finish again");
        continue;
      }
      const auto apart = part_bitwise(*run, *second);
      if (apart && !one.unstable) {
        one.unstable = apart;
        one.unstable_variant = variant_of(run->run);
      }
      one.note(control, apart ? run->run + " does not come out again: first other at " + apart->place_and_rank()
                              : run->run + " comes out again, bit for bit");
    }
    if (!one.differs() || runs.empty() || (one.lost && !one.unstable)) return;
    one.at().again = one.unstable ? compare::Again::kOnceOtherwise : compare::Again::kSame;
    if (one.unstable) one.at().class_ = "nondeterminism";
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

  /// What float64 takes for rounding must be so in each step, too, from one state.
  void try_one_state() {
    const auto led = [](auto force) {
      return [force](const Group& group, const std::vector<Case*>& cases) {
        std::vector<std::vector<std::string>> sides;
        for (const Case* one : cases) sides.push_back(one->sides());
        return force(from_one_start(group.scenario, group.starts), sides, cases);
      };
    };
    const auto wants = [](const Case& one) { return one.asks_one_state; };
    const auto forced = trial_of(one_state(), wants, led([](const auto& scenario, const auto& sides, const auto&) {
                                   return from_one_state(scenario, sides);
                                 }));
    for (Group& group : groups_) {
      for (Case& one : group.cases) {
        if (wants(one) && (!forced || !forced->has(group)))
          leave_open(one, one_state(), "nothing tells it from a mistake that is made in float32 only");
      }
    }
    if (!forced) return;
    each(*forced, wants, [](const Group&, Case& one, const Runs& runs) { judge_one_state(one, runs); });
    const auto parts = [](const Case& one) { return one.parts_from_one_state; };
    const auto again = trial_of(another_state(), parts, led([](const auto& scenario, const auto& sides, const auto&) {
                                  return from_another_state(scenario, sides);
                                }));
    if (!again) return;
    each(*again, parts, [&](const Group& group, Case& one, const Runs& runs) {
      judge_another_state(one, forced->runs(group.scenario.name), runs);
    });
    const auto found = [](const Case& one) { return one.parts_from_one_state && one.differs(); };
    const auto there =
        trial_of(one_state_there(), found, led([](const auto& scenario, const auto& sides, const auto& cases) {
                   std::vector<Divergence> places;
                   for (const Case* one : cases) places.push_back(one->at());
                   return from_one_state_there(scenario, sides, places);
                 }));
    if (!there) return;
    each(*there, found, [](const Group&, Case& one, const Runs& runs) {
      const auto [left, right] = sides_from_one_state(one.at(), runs);
      locate(one.at(), left, right, Looked::kFromOneState);
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
