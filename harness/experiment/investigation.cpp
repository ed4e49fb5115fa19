#include "harness/experiment/investigation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "harness/base/error.h"
#include "harness/compare/beyond_rounding.h"
#include "harness/compare/ladder.h"
#include "harness/compare/scales.h"
#include "harness/experiment/control.h"
#include "harness/experiment/runs.h"

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

/// One finding that is worth control runs.
struct Case {
  CheckReport& report;
  const scenario::Scenario& scenario;
  const plan::Check& check;
  std::optional<Divergence> unstable;  ///< where a side did not come out again
  std::string unstable_variant;
  bool varies = false;  ///< two more runs of a side parted again
  bool lost = false;    ///< a side did not finish again
  bool small = false;   ///< the difference is no more than one sample can do

  Divergence& at() { return *report.result.divergence; }
  const Divergence& at() const { return *report.result.divergence; }

  /// A control that shows the place of the difference closely.
  Control looked_at(Control control) const {
    if (unstable) return looking_at(std::move(control), *unstable);
    return report.result.divergence ? looking_at(std::move(control), at()) : control;
  }

  void note(const Control& control, std::string shows) { report.experiments.push_back({control.id, std::move(shows)}); }
};

/// Where one side does not come out again, the other tells nothing more.
std::vector<std::string> variants_worth_trying(const Case& one) {
  const bool varies = one.unstable && one.report.result.divergence;
  return varies ? std::vector{one.unstable_variant} : variants_of(one.check.spec);
}

bool is_up_to_rounding(const Case& one) { return one.check.spec.that == "rounding"; }

bool is_equal(const Case& one) { return one.check.spec.that == "equal"; }

/// Whether nothing but rounding is known yet to explain what is seen.
bool is_open(const Case& one) { return one.at().suspects.empty() || one.at().class_ == "rounding"; }

/// All cases of one scenario.
struct Group {
  const scenario::Scenario& scenario;
  std::vector<Case> cases;
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
      try_replay_twice();
      try_float64();
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
      if (groups_.empty() || groups_.back().scenario.name != scenario.name) groups_.push_back({scenario, {}});
      groups_.back().cases.push_back({.report = report, .scenario = scenario, .check = plan_.checks[i]});
    }
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
  /// `looks`: at the places of the differences, closely.
  template <typename Wants>
  std::optional<Trial> trial(const Control& control, Wants wants, bool looks) {
    std::vector<scenario::Scenario> scenarios;
    for (Group& group : groups_) {
      std::vector<std::string> variants;
      Control of_group = control;
      for (const Case& one : group.cases) {
        if (!wants(one)) continue;
        for (const std::string& name : variants_worth_trying(one)) variants.push_back(name);
        if (looks) of_group = one.looked_at(std::move(of_group));
      }
      if (variants.empty()) continue;
      try {
        scenarios.push_back(under(of_group, group.scenario, variants));
      } catch (const InputError& error) {  // no such training exists: the others' can be tried
        for (Case& one : group.cases) {
          if (wants(one)) one.note(control, "cannot be tried: " + error.problem().what);
        }
      }
    }
    if (scenarios.empty()) return std::nullopt;
    Trial result{.plan = plan::make_plan(std::move(scenarios)), .evidence = {}};
    result.evidence = execute_(result.plan, control.id);
    return result;
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
      for (Case& one : group.cases) {
        if (!wants(one)) continue;
        judge_replay(one, control, before, again);
        if (one.report.result.divergence && !one.unstable)
          locate(one.at(), again.left(one.at(), true), again.right(one.at(), true));
      }
    }
  }

  /// What does not come out again, twice more: where two runs of one training part is where it is random.
  void try_replay_twice() {
    const Control control = replay_twice();
    const auto wants = [](const Case& one) {
      return one.report.result.divergence && (one.unstable || one.check.spec.that == "repeatable");
    };
    const auto twice = trial(control, wants, /*looks=*/true);
    if (!twice) return;
    for (Group& group : groups_) {
      if (!twice->has(group)) continue;
      const Runs runs = twice->runs(group.scenario.name);
      for (Case& one : group.cases) {
        if (wants(one)) judge_pair(one, control, runs);
      }
    }
  }

  /// What nobody can explain, or what varies, may be memory that was read before anybody wrote it: then what it held
  /// decides, and nothing else.
  void try_fill() {
    const auto wants = [](const Case& one) {
      const bool unknown = one.report.result.divergence && one.at().suspects.empty() && one.at().class_ != "rounding";
      return !one.lost && ((one.report.result.divergence && one.varies) || unknown);
    };
    const auto twice = trial(filled_twice(), wants, /*looks=*/false);
    if (!twice) return;
    const auto otherwise = trial(filled_otherwise(), wants, /*looks=*/false);
    for (Group& group : groups_) {
      if (!twice->has(group) || !otherwise || !otherwise->has(group)) continue;
      for (Case& one : group.cases) {
        if (wants(one)) judge_fill(one, twice->runs(group.scenario.name), otherwise->runs(group.scenario.name));
      }
    }
  }

  /// What the pattern decides, it decides each time: two runs with one are equal, a run with another is not.
  static void judge_fill(Case& one, const Runs& twice, const Runs& otherwise) {
    const Control control = filled_twice();
    for (const std::string& variant : variants_worth_trying(one)) {
      const trace::RunTrace* first = twice.side(variant + "/0", 0).run;
      const trace::RunTrace* second = twice.side(variant + "/1", 0).run;
      const trace::RunTrace* other = otherwise.side(variant + "/0", 0).run;
      if (first == nullptr || second == nullptr || other == nullptr)
        return one.note(control, variant + " did not finish again");
      const auto differ = [](const trace::RunTrace& a, const trace::RunTrace& b) {
        return compare::compare_runs(a, b, trace::all_channels(), compare::bitwise).first;
      };
      const auto moved = differ(*first, *other);
      if (!moved || differ(*first, *second)) continue;
      const std::string seen = variant +
                               " comes out otherwise where fresh memory holds another pattern, and each time the same "
                               "with one: first other at " +
                               moved->place_and_rank();
      one.note(control, seen);
      if (!one.unstable) {
        one.unstable = moved;
        one.unstable_variant = variant;
      }
      one.at().class_ = "nondeterminism";
      one.at().suspects = {{"mem.uninitialised", {seen}}};
      return;
    }
    one.note(control, "what fresh memory holds makes no difference that repeats");
  }

  static void judge_pair(Case& one, const Control& control, const Runs& twice) {
    const std::string variant = one.unstable ? one.unstable_variant : one.at().left.substr(0, one.at().left.rfind('/'));
    const Side first = twice.side(variant + "/0", one.at().rank), second = twice.side(variant + "/1", one.at().rank);
    if (first.run == nullptr || second.run == nullptr) return one.note(control, variant + " did not finish again");
    const compare::Comparison comparison =
        compare::compare_runs(*first.run, *second.run, trace::all_channels(), compare::bitwise);
    if (!comparison.first)
      return one.note(control, variant + " came out twice alike: what was seen before is rare, or was one disturbance");
    one.varies = true;
    one.at().again = compare::Again::kEachTimeOtherwise;
    one.at().class_ = "nondeterminism";
    one.note(control, variant + " comes out otherwise each time: first other at " + comparison.first->place_and_rank());
    Divergence here = *comparison.first;
    const auto at_rank = static_cast<std::size_t>(here.rank);
    locate(here, {first.run, at_rank}, {second.run, at_rank});
    if (here.element) one.note(control, "element " + here.element->text());
    if (!here.operator_) return;
    one.at().operator_ = here.operator_;
    one.at().suspects.clear();  // what is known of the operator may say more
  }

  /// Element and operator of a difference, from what was captured of both sides.
  static void locate(Divergence& at, const Side& left, const Side& right) {
    if (left.run == nullptr || right.run == nullptr) return;
    const trace::Trace& a = left.run->ranks[left.rank];
    const trace::Trace& b = right.run->ranks[right.rank];
    const fs::path left_folder = fs::path(a.origin).parent_path(), right_folder = fs::path(b.origin).parent_path();
    const auto x = trace::read_captured(left_folder, at.step, a.rank, at.channel, at.tensor);
    const auto y = trace::read_captured(right_folder, at.step, b.rank, at.channel, at.tensor);
    if (x && y) at.element = compare::first_unequal_element(*x, *y);
    const bool computed = at.channel != trace::Channel::kSamples && at.channel != trace::Channel::kInput;
    const fs::path left_log = trace::captured_operators_path(left_folder, at.step, a.rank);
    const fs::path right_log = trace::captured_operators_path(right_folder, at.step, b.rank);
    if (left.run == right.run || !computed || !compare::same_shape(*left.run, *right.run)) return;
    if (!fs::exists(left_log) || !fs::exists(right_log)) return;
    at.operator_ = compare::first_operator(trace::read_operators(left_log), trace::read_operators(right_log));
  }

  /// The runs whose records the finding is about; of a check up to rounding all of them: what float64 settles for the
  /// trainings must hold for every run.
  static std::vector<const trace::RunTrace*> runs_of(const Case& one, const Runs& before) {
    std::vector<const trace::RunTrace*> runs;
    if (is_up_to_rounding(one)) {
      for (const std::string& variant : one.check.spec.variants) {
        for (const trace::RunTrace* run : before.all_of(variant)) runs.push_back(run);
      }
    } else if (one.report.result.divergence) {
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
      const compare::Comparison comparison =
          compare::compare_runs(*run, *second, trace::all_channels(), compare::bitwise);
      if (comparison.first && !one.unstable) {
        one.unstable = comparison.first;
        one.unstable_variant = run->run.substr(0, run->run.rfind('/'));
      }
      one.note(control, comparison.first ? run->run + " does not come out again: first other at " +
                                               comparison.first->place_and_rank()
                                         : run->run + " comes out again, bit for bit");
    }
    if (!one.report.result.divergence || runs.empty() || (one.lost && !one.unstable)) return;
    one.at().again = one.unstable ? compare::Again::kOnceOtherwise : compare::Again::kSame;
    if (one.unstable) one.at().class_ = "nondeterminism";
  }

  /// Whether rounding could be what is seen.
  bool may_be_rounding(const Case& one) const {
    const bool random = one.unstable.has_value() || one.at().class_ == "nondeterminism";
    if (random || !compare::can_round(one.at().channel)) return false;
    const Runs runs(plan_, evidence_, one.scenario.name);
    const Side left = runs.left(one.at()), right = runs.right(one.at());
    if (is_open(one) || left.run == nullptr || right.run == nullptr) return is_open(one);
    return is_equal(one) && compare::differ_slightly(*left.run, *right.run, place_of(one.at(), left, right));
  }

  void try_float64() {
    const Control control = in_float64();
    const auto wants = [this](const Case& one) {
      return one.report.result.divergence ? may_be_rounding(one) : is_up_to_rounding(one);
    };
    const auto trial_of = trial(control, wants, /*looks=*/false);
    if (!trial_of) return;
    for (Group& group : groups_) {
      if (!trial_of->has(group)) continue;
      const Runs before(plan_, evidence_, group.scenario.name);
      const Runs after = trial_of->runs(group.scenario.name);
      for (Case& one : group.cases) {
        if (!wants(one)) continue;
        if (one.report.result.divergence) climb(one, control, before, after);
        if (is_up_to_rounding(one)) settle_rounding(one, control, before, after);
      }
    }
  }

  static void rule_out_rounding(Divergence& at, const trace::RunTrace& right) {
    compare::explain(at, right.world_size());
    at.is_no_rounding = true;
  }

  /// Where two runs of a case part by more than any rounding.
  static std::optional<Divergence> beyond(const Case& one, const trace::RunTrace& left, const trace::RunTrace& right) {
    const auto variant = [&](const trace::RunTrace& run) -> const scenario::Variant& {
      return one.scenario.variant(run.run.substr(0, run.run.rfind('/')));
    };
    if (&left == &right) return std::nullopt;
    return compare::beyond_rounding({left, variant(left)}, {right, variant(right)},
                                    channels_of(one, compare::same_shape(left, right)));
  }

  /// What float64 has taken away is a mistake nevertheless. What differs before it in its step is its doing, too,
  /// unless the two cut their batches otherwise.
  static void deny_rounding(Case& one, const Control& control, const Divergence& beyond, const trace::RunTrace& left,
                            const trace::RunTrace& right) {
    one.note(control, "it shrinks as rounding does, and is far more than rounding makes, at " +
                          beyond.place_and_rank() + ": something is done in float32 only");
    const Divergence& at = one.at();
    const bool later = at.step < beyond.step ||
                       (at.step == beyond.step && at.channel < beyond.channel && !compare::same_shape(left, right));
    if (later) {
      const compare::Again again = one.at().again;
      one.at() = beyond;
      one.at().again = again;
      one.at().behind_rounding = true;
    }
    compare::explain(one.at(), right.world_size());
    one.at().is_no_rounding = true;
  }

  /// The place of the difference in both precisions. What is done in float32 only shrinks as well, so that not all that
  /// does is rounding.
  static void climb(Case& one, const Control& control, const Runs& before, const Runs& after) {
    const Side left = before.left(one.at()), right = before.right(one.at());
    const Side left64 = after.left(one.at(), true), right64 = after.right(one.at(), true);
    if (left.run == nullptr || right.run == nullptr) return;  // a golden or a closed form has no precision
    if (left64.run == nullptr || right64.run == nullptr) return one.note(control, "a side did not finish");
    const compare::PrecisionLadder ladder(*left.run, *right.run, *left64.run, *right64.run);
    if (const std::string why = ladder.obstacle(); !why.empty()) return one.note(control, why);
    const auto rungs = ladder.at(place_of(one.at(), left, right));
    if (!rungs) return one.note(control, "the place of the difference could not be measured in both precisions");
    const double samples = compare::Scales(*left.run).samples(one.at().step);
    one.small = samples > 0 && rungs->in_float32 * std::sqrt(samples) <= 1;
    switch (rungs->says()) {
      case compare::Ladder::Says::kRounding: {
        const bool passes = (is_equal(one) || is_up_to_rounding(one)) &&
                            pass_rounding(one, control, ladder, compare::same_shape(*left.run, *right.run));
        const auto far = passes ? std::nullopt : beyond(one, *left.run, *right.run);
        if (far) return deny_rounding(one, control, *far, *left.run, *right.run);
        one.note(control, "it is rounding: " + rungs->text());
        if (is_open(one) && !passes) one.at().class_ = "rounding";
        break;
      }
      case compare::Ladder::Says::kMistake:
        one.note(control, "it is no rounding: " + rungs->text());
        rule_out_rounding(one.at(), *right.run);
        break;
      case compare::Ladder::Says::kNothing:
        if (const auto far = beyond(one, *left.run, *right.run))
          return deny_rounding(one, control, *far, *left.run, *right.run);
        one.note(control, "it shrinks, but not as rounding does: " + rungs->text());
        break;
    }
  }

  /// Where trainings part by rounding first, and by a mistake then, the mistake is what matters. Rounding that has
  /// grown until float64 shows it, too, passes through what is neither for some steps. False where there is none.
  static bool pass_rounding(Case& one, const Control& control, const compare::PrecisionLadder& ladder,
                            bool same_shape) {
    const std::vector<trace::Channel> channels = channels_of(one, same_shape);
    const auto mistake = ladder.first_mistake(channels);
    if (!mistake || ladder.judge(channels).first.value_or(*mistake).step != mistake->step) return false;
    one.note(control, "what differs first, at " + one.at().place_and_rank() +
                          ", is rounding; the first difference that stays is at " + mistake->place_and_rank());
    const compare::Again again = one.at().again;
    one.at() = *mistake;
    one.at().again = again;
    one.at().is_no_rounding = one.at().behind_rounding = true;
    return true;
  }

  /// Element and operator of the differences that float64 has shown.
  void try_replay_there() {
    const auto wants = [](const Case& one) { return one.report.result.divergence && one.at().behind_rounding; };
    const auto there = trial(replay_there(), wants, /*looks=*/true);
    if (!there) return;
    for (Group& group : groups_) {
      if (!there->has(group)) continue;
      const Runs again = there->runs(group.scenario.name);
      for (Case& one : group.cases) {
        if (wants(one)) locate(one.at(), again.left(one.at(), true), again.right(one.at(), true));
      }
    }
  }

  /// Trainings whose differences all shrink as rounding does compute the same. So a check up to rounding agrees that
  /// was left open, or that differs by no more than one sample can do.
  static void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after) {
    CheckResult& result = one.report.result;
    const bool open = result.status == CheckResult::Status::kInconclusive;
    const bool small = result.divergence && result.divergence->class_ == "rounding" && one.small;
    if (one.unstable || one.lost || (!open && !small)) return;
    std::size_t compared = 0;
    for (std::size_t i = 1; i < one.check.spec.variants.size(); ++i) {
      const trace::RunTrace* runs[] = {
          before.first_of(one.check.spec.variants[0]), before.first_of(one.check.spec.variants[i]),
          after.first_of(one.check.spec.variants[0]), after.first_of(one.check.spec.variants[i])};
      if (std::find(std::begin(runs), std::end(runs), nullptr) != std::end(runs))
        return one.note(control, "a training did not finish");
      const compare::PrecisionLadder ladder(*runs[0], *runs[1], *runs[2], *runs[3]);
      if (const std::string why = ladder.obstacle(); !why.empty()) return one.note(control, why);
      const compare::Comparison comparison = ladder.judge(channels_of(one, compare::same_shape(*runs[2], *runs[3])));
      if (comparison.first) {
        one.note(control,
                 "the trainings differ there by more than rounding, first at " + comparison.first->place_and_rank());
        if (open) {
          result = compare::result_of(comparison);
        } else {
          pass_rounding(one, control, ladder, compare::same_shape(*runs[0], *runs[1]));
        }
        return;
      }
      if (const auto far = beyond(one, *runs[0], *runs[1])) {
        result = {.status = CheckResult::Status::kDivergence, .compared = comparison.compared, .divergence = far};
        return deny_rounding(one, control, *far, *runs[0], *runs[1]);
      }
      compared += comparison.compared;
    }
    if (compared == 0) return;
    one.note(control, "every difference of the trainings shrinks as rounding does");
    result = {.compared = compared};
  }

  static std::vector<trace::Channel> channels_of(const Case& one, bool same_shape) {
    const std::map<std::string, std::vector<const trace::RunTrace*>> none;
    return compare::rounding_channels(
        {.scenario = one.scenario, .spec = one.check.spec, .traces = none, .train_digests = {}, .golden_root = {}},
        same_shape);
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
