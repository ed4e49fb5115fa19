#include "harness/experiment/blame.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/experiment/trials.h"

namespace lockstep::blaming {
namespace {

using judge::Evidence;
using judge::Status;

/// What a training computes, and how it is launched.
Json recipe_and_launch_of(const scenario::Variant& variant) {
  const char* const recipe = variant.recipe_definition();
  Json document = {
      {"world_size", variant.world_size}, {recipe, variant.recipe_json()}, {"launch", variant.launch_json}};
  document[recipe].erase("record");
  return document;
}

/// Sides that are to be equal exchange nothing that is looked at: buckets of another size are no difference by
/// themselves.
scenario::Scenario without_collectives(scenario::Scenario scenario, const Parties& parties) {
  if (!scenario::traits_of(parties.that).wants_same_bits()) return scenario;
  for (scenario::Variant& variant : scenario.variants) {
    std::vector<std::string> channels = variant.train.record.channels;
    std::erase(channels, trace::name_of(trace::Channel::kCollective));
    variant = scenario::patched(variant, {{"train", {{"record", {{"channels", channels}}}}}}, scenario.file.string());
  }
  return scenario;
}

class Blaming {
 public:
  Blaming(const scenario::Scenario& scenario, const Parties& parties, const std::filesystem::path& golden_root,
          const std::string& today, const experiment::Execute& execute, const Progress& progress)
      : scenario_(without_collectives(scenario, parties)),
        parties_(parties),
        golden_root_(golden_root),
        today_(today),
        execute_(execute),
        progress_(progress) {}

  Blame run(const std::vector<NamedControl>& controls) {
    Blame blame;
    progress_("the trainings unchanged");
    const scenario::Scenario asked = with_check(
        experiment::under(experiment::unchanged("replay"), scenario_, variants()), parties_.left, parties_.right);
    blame.plan = plan::make_plan({asked});
    digest_ = blame.plan.runs.at(blame.plan.runs_of(scenario_.name, parties_.left).at(0)).train_digest;
    const std::vector<Evidence> evidence = execute_(blame.plan, {"as_they_are"});
    blame.verdict = judge::judge(blame.plan, evidence, golden_root_, today_);
    auto seen = blame.check().result.divergence;  // before anything was passed over as rounding
    experiment::investigate(blame.verdict, blame.plan, evidence, today_, execute_);
    const judge::CheckReport& check = blame.check();
    if (!against_golden())
      blame.changes = scenario::changes_between(recipe_and_launch_of(scenario_.variant(parties_.left)),
                                                recipe_and_launch_of(scenario_.variant(parties_.right)));
    if (check.status != Status::kDivergence || !check.result.divergence) return blame;
    if (seen) seen->class_ = check.result.divergence->class_;
    for (std::size_t i = 0; i < controls.size(); ++i) {
      progress_("control " + std::to_string(i + 1) + " of " + std::to_string(controls.size()) + ": " +
                controls[i].name());
      blame.controls.push_back(tried(controls[i], seen.value_or(*check.result.divergence)));
    }
    reduce_changes(blame);
    return blame;
  }

 private:
  bool against_golden() const { return scenario::traits_of(parties_.that).sides == scenario::Sides::kGolden; }

  std::vector<std::string> variants() const {
    return against_golden() ? std::vector{parties_.left} : std::vector{parties_.left, parties_.right};
  }

  scenario::Scenario with_check(scenario::Scenario scenario, const std::string& left, const std::string& right) const {
    scenario::CheckSpec check;
    check.that = parties_.that;
    check.variants = against_golden() ? std::vector{left} : std::vector{left, right};
    scenario.checks = {check};
    return scenario;
  }

  /// Whether all recorders that were asked for something did it: those of Python do, and say so.
  static bool followed(const plan::Plan& plan, const std::vector<Evidence>& evidence) {
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      const scenario::LaunchSpec& launch = plan.runs[i].launch;
      const bool asked = launch.environment.contains("LOCKSTEP_CONTROL") || !launch.step_delay_ms.empty();
      const bool is_program = std::holds_alternative<plan::CommandProgram>(plan.runs[i].program);
      if (is_program && asked && evidence[i].trace && !evidence[i].trace->ranks[0].header.contains("controls"))
        return false;
    }
    return true;
  }

  /// One run of a scenario with one check. *Throws*: InputError where a program does not follow a control.
  judge::CheckReport judged(const scenario::Scenario& scenario, const std::string& folder) const {
    plan::Plan plan = plan::make_plan({scenario});
    const std::vector<Evidence> evidence = execute_(plan, {folder});
    if (!followed(plan, evidence)) throw InputError({.what = "the program's recorder follows no controls"});
    // A golden is of the training without the control.
    for (plan::Run& run : plan.runs) {
      if (against_golden() && run.variant == parties_.left) run.train_digest = digest_;
    }
    return judge::judge(plan, evidence, golden_root_, today_).checks.at(0);
  }

  /// One step of both sides, from the state that the left one has before it.
  scenario::Scenario from_same_state(std::int64_t step) const {
    if (step < 1)
      throw InputError(
          {.what = "the difference is in the first step, which each side starts from its own initial state"});
    for (const std::string& name : variants()) {
      if (scenario_.variant(name).train.checkpoint.load)
        throw InputError({.what = "a side starts from its own checkpoint"});
    }
    scenario::Scenario scenario = experiment::under(experiment::unchanged("replay"), scenario_, variants());
    const std::string file = scenario_.file.string(), saved = "saved";
    const Json load = {{"from", saved}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}};
    const Json one_step = {
        {"train",
         {{"steps", step + 1}, {"checkpoint", {{"save_after", nullptr}, {"save_every", nullptr}, {"load", load}}}}}};
    scenario::Variant source = scenario::patched(
        scenario.variant(parties_.left), {{"train", {{"steps", step}, {"checkpoint", {{"save_after", step}}}}}}, file);
    source.name = saved;
    for (scenario::Variant& variant : scenario.variants) variant = scenario::patched(variant, one_step, file);
    scenario.variants.push_back(std::move(source));
    return with_check(std::move(scenario), parties_.left, parties_.right);
  }

  ControlResult tried(const NamedControl& control, const compare::Divergence& before) const {
    using Outcome = ControlResult::Outcome;
    ControlResult result{.control = control};
    if (against_golden() && control.kind != NamedControl::Kind::kSameTraining) {
      result.outcome = Outcome::kDoesNotApply;
      result.shows = "the golden was accepted without this control";
      return result;
    }
    // A random difference is gone if it is not seen so often: it is equal now and then without any control.
    const int times = before.class_ == scenario::Class::kNondeterminism ? static_cast<int>(experiment::kReplays) : 1;
    judge::CheckReport check;
    try {
      const scenario::Scenario changed =
          control.kind == NamedControl::Kind::kSameState
              ? from_same_state(before.step)
              : with_check(experiment::under(control.control, scenario_, variants()), parties_.left, parties_.right);
      check = judged(changed, "control_" + control.name());
      for (int again = 1; again < times && check.status == Status::kAgree; ++again)
        check = judged(changed, "control_" + control.name() + "_" + std::to_string(again));
    } catch (const InputError& error) {
      result.outcome = Outcome::kDoesNotApply;
      result.shows = error.problem().what;
      return result;
    }
    if (check.status == Status::kAgree) {
      result.outcome = Outcome::kVanishes;
      result.shows = std::to_string(check.result.compared) + " records compared";
      if (times > 1) result.shows += ", equal in " + std::to_string(times) + " runs";
    } else if (check.result.divergence) {
      const compare::Divergence& at = *check.result.divergence;
      const bool same = at.step == before.step && at.channel == before.channel && at.tensor == before.tensor;
      result.outcome = same ? Outcome::kStays : Outcome::kMoves;
      result.shows = "first at " + at.place() + (at.relation.empty() ? "" : ": " + at.relation);
    } else {
      result.outcome = Outcome::kUndecided;
      result.shows = check.result.why;
    }
    return result;
  }

  /// Whether `left` with these changes differs from `left`; nothing when that is no training, or cannot be judged.
  std::optional<bool> differs_with(const std::vector<scenario::Change>& changes) {
    const std::string name = "changed";
    try {
      scenario::Scenario both =
          experiment::under(experiment::unchanged("replay"), scenario_, variants());  // with all that either loads from
      scenario::Variant changed =
          scenario::patched(both.variant(parties_.left), scenario::patch_of(changes), scenario_.file.string());
      changed.name = name;
      both.variants.push_back(std::move(changed));
      const judge::CheckReport check =
          judged(with_check(std::move(both), parties_.left, name), "changes_" + std::to_string(++trials_));
      if (check.status == Status::kAgree) return false;
      return check.result.divergence ? std::optional(true) : std::nullopt;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  /// The first change that alone makes a difference; else what is left when none can be taken out any more.
  void reduce_changes(Blame& blame) {
    const auto trying = [&](const std::string& what) { progress_("changes of the variant: " + what); };
    if (blame.changes.empty()) return;
    std::vector<scenario::Change> all = blame.changes;
    if (all.size() == 1) {
      blame.smallest = all;
      blame.found = true;
      return;
    }
    for (const scenario::Change& one : all) {
      trying(one.path());
      if (differs_with({one}).value_or(false)) blame.smallest.push_back(one);
    }
    blame.found = !blame.smallest.empty();
    if (blame.found) return;
    for (std::size_t i = 0; i < all.size() && all.size() > 1;) {
      std::vector<scenario::Change> fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      trying("all but " + all[i].path());
      if (differs_with(fewer).value_or(false)) {
        all = fewer;
      } else {
        ++i;
      }
    }
    blame.smallest = all;
    blame.found = differs_with(all).value_or(false);
  }

  const scenario::Scenario scenario_;
  const Parties& parties_;
  const std::filesystem::path& golden_root_;
  const std::string& today_;
  const experiment::Execute& execute_;
  const Progress& progress_;
  std::string digest_;  ///< of the left training as it is
  std::size_t trials_ = 0;
};

}  // namespace

std::string_view name_of(ControlResult::Outcome outcome) {
  switch (outcome) {
    case ControlResult::Outcome::kStays:
      return "stays";
    case ControlResult::Outcome::kMoves:
      return "moves";
    case ControlResult::Outcome::kVanishes:
      return "vanishes";
    case ControlResult::Outcome::kUndecided:
      return "undecided";
    case ControlResult::Outcome::kDoesNotApply:
      return "does not apply";
  }
  return "";
}

Blame blame(const scenario::Scenario& scenario, const Parties& parties, const std::vector<NamedControl>& controls,
            const std::filesystem::path& golden_root, const std::string& today, const experiment::Execute& execute,
            const Progress& progress) {
  return Blaming(scenario, parties, golden_root, today, execute, progress).run(controls);
}

}  // namespace lockstep::blaming
