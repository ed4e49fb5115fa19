#include "harness/experiment/one_state.h"

#include <algorithm>
#include <utility>

#include "harness/base/error.h"
#include "harness/checks/check.h"
#include "harness/compare/beyond_rounding.h"
#include "harness/compare/ladder.h"
#include "harness/compare/pattern.h"
#include "harness/compare/repeats.h"
#include "harness/compare/rounding.h"
#include "harness/experiment/closeup.h"
#include "harness/experiment/readings.h"
#include "harness/laws/held.h"
#include "harness/laws/scales.h"

namespace lockstep::experiment {
namespace {

using compare::Comparison;
using scenario::Scenario;
using scenario::Variant;
using trace::RunTrace;

// No variant of a scenario has a name with a plus.
std::string leader(const std::string& variant) { return variant + "+leads"; }

std::string follower(const std::string& variant, const std::string& of) { return variant + "+follows+" + of; }

std::string float64_of(const std::string& variant) { return variant + "+float64"; }

/// Adds a variant under another name, once.
void add(Scenario& scenario, Variant variant, std::string name) {
  variant.name = std::move(name);
  const auto same = [&](const Variant& other) { return other.name == variant.name; };
  if (std::none_of(scenario.variants.begin(), scenario.variants.end(), same))
    scenario.variants.push_back(std::move(variant));
}

/// Leaders and followers in float32 under a control. `led`: their names.
Scenario led_by_first(const Control& control, const Scenario& scenario, const std::vector<const Case*>& cases,
                      std::vector<std::string>& led) {
  std::vector<std::string> all;
  for (const Case* one : cases) {
    for (const std::string& side : one->sides()) all.push_back(side);
  }
  Scenario forced = under(control, scenario, all);
  const std::string file = scenario.file.string();
  for (const Case* one : cases) {
    const std::string& first = one->sides()[0];
    // All that is computed, or a state would be taken back before it shows.
    const Json all_of_it = {{"channels", nullptr}, {"every", nullptr}};
    const Json leads = {
        {"train",
         {{"checkpoint", {{"save_after", nullptr}, {"save_every", 1}, {"prefix", ""}}}, {"record", all_of_it}}}};
    add(forced, scenario::patched(forced.variant(first), leads, file), leader(first));
    led.push_back(leader(first));
    const Json follows = {{"train", {{"checkpoint", {{"follow", leader(first)}}}, {"record", all_of_it}}}};
    for (const std::string& side : one->sides()) {
      add(forced, scenario::patched(forced.variant(side), follows, file), follower(side, first));
      if (side != first) led.push_back(follower(side, first));
    }
  }
  return forced;
}

/// What is asked for alone, and no further than the mistakes that are known: what is computed until then does not
/// depend on what comes after.
Scenario as_far_as_needed(const Scenario& all, const std::vector<const Case*>& cases,
                          const std::vector<std::string>& asked) {
  Scenario forced = under(unchanged(""), all, asked);
  std::int64_t last = 0;
  for (const Case* one : cases) {
    if (!one->now.is_mistake()) return forced;
    last = std::max(last, one->at().step);
  }
  Scenario shorter = forced;
  try {
    for (Variant& variant : shorter.variants) {
      if (std::find(asked.begin(), asked.end(), variant.name) != asked.end())
        variant = scenario::patched(variant, {{"train", {{"steps", last + 1}}}}, forced.file.string());
    }
  } catch (const InputError&) {  // something is asked for at a later step
    return forced;
  }
  return shorter;
}

Scenario led_in_float32(const Control& control, const Scenario& scenario, const std::vector<const Case*>& cases) {
  std::vector<std::string> led;
  return as_far_as_needed(led_by_first(control, scenario, cases, led), cases, led);
}

/// The runs of two sides of a check that are led by the first.
struct Forced {
  const RunTrace* left = nullptr;
  const RunTrace* right = nullptr;
  const RunTrace* left_in_float64 = nullptr;
  const RunTrace* right_in_float64 = nullptr;

  Forced(const Runs& runs, const std::string& first, const std::string& other)
      : left(runs.first_of(leader(first))),
        right(runs.first_of(follower(other, first))),
        left_in_float64(runs.first_of(float64_of(follower(first, first)))),
        right_in_float64(runs.first_of(float64_of(follower(other, first)))) {}

  bool finished() const { return left != nullptr && right != nullptr && !right->ranks[0].steps.empty(); }
  bool finished_in_both() const { return finished() && left_in_float64 != nullptr && right_in_float64 != nullptr; }

  std::int64_t comparable_until() const {
    return compare::comparable_until(*left, *right, *left_in_float64, *right_in_float64);
  }

  /// One step rounds as far as a mistake is large then: nothing to add to what is known.
  bool uses_16_bits() const { return compare::uses_16_bits(*left) || compare::uses_16_bits(*right); }

  compare::PrecisionLadder ladder() const { return {*left, *right, *left_in_float64, *right_in_float64}; }

  /// What it began with is its own.
  compare::Scope scope() const {
    compare::Scope scope = compare::held_by_both(*left, *right);
    scope.first_step = right->ranks[0].steps.front().step + 1;
    scope.end_step = comparable_until();
    return scope;
  }
};

/// Two runs of which the left one leads: where a step of theirs parts by more than the rounding of one step.
class OneStep {
 public:
  OneStep(const RunTrace& left, const RunTrace& right)
      : left_(left), right_(right), bound_(compare::RoundingBound::of_one_step(left, right)) {}

  bool beyond(const trace::Record& left, const trace::Record& right, std::int64_t step, std::int64_t rank) const {
    if (!compare::bitwise(left, right, step, rank) || !trace::info(left.channel).can_round()) return false;
    const auto rounding = bound_.judge(left, right, step, rank);
    return rounding && !rounding->explained();
  }

  /// Whether a difference at a place that the other runs have, too, is beyond rounding.
  bool beyond_at(const trace::Record& there, std::int64_t step, std::int64_t rank) const {
    const compare::Location place{.step = step, .channel = there.channel, .tensor = there.name};
    const trace::Record* left = compare::record_of(left_, place, static_cast<std::size_t>(rank));
    const trace::Record* right = compare::record_of(right_, place, static_cast<std::size_t>(rank));
    return left != nullptr && right != nullptr && beyond(*left, *right, step, rank);
  }

 private:
  const RunTrace& left_;
  const RunTrace& right_;
  compare::RoundingBound bound_;
};

/// Walks over the steps of two sides to the first one that parts in float32 by more than it rounds, by theory and by
/// what float64 leaves of it. `again`: and parts there from other weights as well.
Comparison walk(const Case& one, const Forced& forced, const Forced* again = nullptr) {
  const OneStep step_of(*forced.left, *forced.right);
  const compare::PrecisionLadder ladder = forced.ladder();
  const compare::Relation shrinks = ladder.shrinks(),
                          within_rounding = ladder.within_rounding_of_step(/*from_one_state=*/true);
  std::optional<OneStep> another;
  if (again != nullptr) another.emplace(*again->left, *again->right);
  const compare::Relation relation = [&](const trace::Record& a, const trace::Record& b, std::int64_t step,
                                         std::int64_t rank) -> std::optional<std::string> {
    if (!step_of.beyond(a, b, step, rank)) return std::nullopt;
    auto far = shrinks(a, b, step, rank);
    if (!far) far = within_rounding(a, b, step, rank);
    if (!far || (another && !another->beyond_at(a, step, rank))) return std::nullopt;
    return "one step from one state: " + *far;
  };
  return compare::compare_runs(*forced.left, *forced.right,
                               compared_channels(one, *forced.left, *forced.right, /*all=*/true), relation,
                               forced.scope());
}

/// A difference in float64 that exceeds rounding.
Comparison walk_in_float64(const Case& one, const Forced& forced) {
  return forced.ladder().judge(compared_channels(one, *forced.left, *forced.right, /*all=*/true), forced.scope());
}

/// Whether all that the step of a difference made before it is equal, bit for bit.
bool begins_there(const Divergence& at, const RunTrace& left, const RunTrace& right) {
  return compare::same_shape(left, right) && !compare::part_before(left, right, at.step, at.channel, at.step);
}

/// Whether a leader, which saves all its states and begins with its own weights, is the run that was judged.
bool comes_out_as(const RunTrace* before, const RunTrace& leads) {
  if (before == nullptr) return false;
  compare::Scope scope = compare::held_by_both(*before, leads);
  scope.common_steps_only = true;
  const Comparison comparison = compare::compare_runs(*before, leads, trace::all_channels(), compare::bitwise, scope);
  return comparison.compared > 0 && !comparison.first;
}

bool begin_alike(const RunTrace& left, const RunTrace& right) {
  const laws::Held a(left, 0, trace::kInitialStep), b(right, 0, trace::kInitialStep);
  return laws::same(a, b, trace::Channel::kWeight);
}

/// The steps of a side in both precisions.
Steps read_steps(const Case& one, const std::string& side, const Runs& forced) {
  const Forced runs(forced, one.sides()[0], side);
  if (!runs.finished_in_both()) return {.side = side, .shows = Steps::Show::kUnfinished};
  if (runs.uses_16_bits()) return {.side = side, .shows = Steps::Show::kIn16Bits};
  if (Comparison mistake = walk_in_float64(one, runs); mistake.first)
    return {.side = side, .shows = Steps::Show::kDifferInFloat64, .compared = std::move(mistake)};
  Steps steps{.side = side, .compared = walk(one, runs)};
  const auto& first = steps.compared.first;
  if (!first && runs.comparable_until() != compare::kNoStep) steps.shows = Steps::Show::kNotFinite;
  if (!first) return steps;
  const bool is_update =
      trace::info(first->channel).part == trace::Part::kUpdated && begins_there(*first, *runs.left, *runs.right);
  steps.shows = is_update ? Steps::Show::kUpdateDiffers : Steps::Show::kDifferInFloat32;
  return steps;
}

/// A place of the runs from one state, closely.
Closeup closeup_at(const Divergence& at, const Case& one, const std::string& side, const Runs& forced) {
  const std::string& first = one.sides()[0];
  return closeup_of(at, forced.side(leader(first) + "/0", at.rank), forced.side(follower(side, first) + "/0", at.rank),
                    Looked::kFromOneState);
}

}  // namespace

Scenario from_one_state(const Scenario& scenario, const std::vector<const Case*>& cases) {
  Control control = unchanged(name_of(Trial::kOneState));
  for (const Case* one : cases) {
    if (one->now.is_mistake())
      control = looking_around(std::move(control), one->at());  // where it is likely to be found
  }
  std::vector<std::string> asked;
  Scenario forced = led_by_first(control, scenario, cases, asked);
  for (const Case* one : cases) {
    for (const std::string& side : one->sides()) {
      const std::string following = follower(side, one->sides()[0]);
      add(forced, under(experiment::in_float64(), forced, {following}).variant(following), float64_of(following));
      asked.push_back(float64_of(following));
    }
  }
  return as_far_as_needed(forced, cases, asked);
}

Scenario from_another_state(const Scenario& scenario, const std::vector<const Case*>& cases) {
  Scenario other = scenario;
  for (Variant& variant : other.variants) {
    const Json seed = {{"train", {{"seed", {{"base", variant.train.seed.base ^ 1}}}}}};
    variant = scenario::patched(variant, seed, scenario.file.string());
  }
  return led_in_float32(unchanged(name_of(Trial::kAnotherState)), other, cases);
}

Scenario from_one_state_there(const Scenario& scenario, const std::vector<const Case*>& cases) {
  Control control = unchanged(name_of(Trial::kOneStateThere));
  for (const Case* one : cases) control = looking_at(std::move(control), one->at());
  return led_in_float32(control, scenario, cases);
}

OneState read_one_state(const Case& one, const Runs& forced) {
  OneState fact;
  for (std::size_t i = 1; i < one.sides().size(); ++i) {
    fact.sides.push_back(read_steps(one, one.sides()[i], forced));
    Steps& steps = fact.sides.back();
    if (steps.shows == Steps::Show::kDifferInFloat64 || steps.shows == Steps::Show::kUpdateDiffers)
      steps.closeup = closeup_at(*steps.compared.first, one, steps.side, forced);
  }
  return fact;
}

AnotherState read_another_state(const Case& one, const Runs& before, const Runs& forced, const Runs& again) {
  AnotherState fact{.has_kinks = false};
  for (std::size_t i = 1; i < one.sides().size(); ++i) {
    const std::string &first = one.sides()[0], &side = one.sides()[i];
    fact.has_kinks |= compare::have_kinks(one.scenario.variant(first), one.scenario.variant(side));
    const Forced runs(forced, first, side), others(again, first, side);
    if (!runs.finished_in_both()) continue;  // has been said
    Steps steps{.side = side};
    if (!others.finished()) {
      steps.shows = Steps::Show::kUnfinished;
    } else if (begin_alike(*runs.left, *others.left)) {
      steps.shows = Steps::Show::kSameWeights;
    } else if (runs.uses_16_bits()) {
      steps.shows = Steps::Show::kIn16Bits;
    } else if (Comparison both = walk(one, runs, &others); both.first) {
      steps.shows = Steps::Show::kDifferInFloat32;
      steps.closeup = closeup_at(*both.first, one, side, forced);
      steps.compared = std::move(both);
      fact.leader_repeats = comes_out_as(before.first_of(first), *runs.left);
    }
    fact.sides.push_back(std::move(steps));
  }
  return fact;
}

OneStateThere read_one_state_there(const Case& one, const Runs& forced, const Runs& again) {
  const std::string first = variant_of(one.at().left.run), other = variant_of(one.at().right.run);
  OneStateThere fact{.closeup = closeup_at(one.at(), one, other, again)};
  for (const auto& [variant, run] : {std::pair(first, leader(first)), std::pair(other, follower(other, first))}) {
    const RunTrace *before = forced.first_of(run), *after = again.first_of(run);
    fact.runs.push_back({.run = variant + "/0", .finished = false});
    if (before == nullptr || after == nullptr) continue;
    fact.runs.back().finished = true;  // it ends at the place
    fact.runs.back().apart = compare::part_bitwise(*before, *after, {.common_steps_only = true});
  }
  return fact;
}

}  // namespace lockstep::experiment
