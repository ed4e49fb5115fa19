#include "harness/experiment/rounding.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "harness/compare/beyond_rounding.h"
#include "harness/compare/ladder.h"
#include "harness/compare/rounding.h"
#include "harness/laws/scales.h"

namespace lockstep::experiment {
namespace {

using checks::CheckResult;
using compare::Divergence;

/// Whether nothing but rounding is known yet to explain what is seen.
bool is_open(const Case& one) { return one.at().suspects.empty() || one.at().class_ == scenario::Class::kRounding; }

/// The part of two runs that must be equal.
compare::Scope scope_of(const Case& one, const trace::RunTrace& right) {
  if (one.check.spec.traits().sides != scenario::Sides::kResumption || right.ranks[0].steps.empty()) return {};
  return checks::after_loading(one.scenario, one.check.spec, right);
}

/// Where two runs of a case part by more than any rounding.
std::optional<Divergence> beyond(const Case& one, const compare::PrecisionLadder& ladder, const trace::RunTrace& left,
                                 const trace::RunTrace& right) {
  if (&left == &right) return std::nullopt;
  const auto training = [&](const trace::RunTrace& run) {
    return compare::Training{run, one.scenario.variant(variant_of(run.run))};
  };
  return compare::beyond_rounding(training(left), training(right), ladder, compared_channels(one, left, right));
}

/// Moves a finding behind the rounding that comes before it.
void move_to(Case& one, const Divergence& there) {
  const compare::Again again = one.at().again;
  one.at() = there;
  one.at().again = again;
  one.at().behind_rounding = true;
}

/// What float64 has taken away is a mistake nevertheless. What differs before it in its step is its doing, too,
/// unless the two cut their batches otherwise.
void deny_rounding(Case& one, const Control& control, const Divergence& beyond, const trace::RunTrace& left,
                   const trace::RunTrace& right) {
  one.note(control, "it shrinks like rounding, but is far larger than rounding can be, at " + beyond.place_and_rank() +
                        ": a mistake in float32 only");
  const Divergence& at = one.at();
  const bool earlier_in_step = at.step == beyond.step && at.channel < beyond.channel;
  const bool may_begin_before = one.is_up_to_rounding() || at.step < beyond.step;  // where it was too small to see
  if (at.step < beyond.step || (earlier_in_step && !compare::same_shape(left, right))) move_to(one, beyond);
  rule_out_rounding(one);
  one.asks_one_state = may_begin_before;
}

/// The first difference that stays in float64, unless rounding may have grown into it.
std::optional<Divergence> first_mistake(const compare::PrecisionLadder& ladder,
                                        const std::vector<trace::Channel>& channels, const compare::Scope& scope) {
  const auto mistake = ladder.first_mistake(channels, scope);
  const bool grew = mistake && ladder.judge(channels, scope).first.value_or(*mistake).step != mistake->step;
  return grew ? std::nullopt : mistake;
}

/// A mistake may begin where the bound on rounding does not show it yet.
void go_back(Case& one, const Control& control, const compare::PrecisionLadder& ladder,
             const std::vector<trace::Channel>& channels, const compare::Scope& scope) {
  const auto mistake = first_mistake(ladder, channels, scope);
  if (!mistake || std::pair(mistake->step, mistake->channel) >= std::pair(one.at().step, one.at().channel)) return;
  one.note(control, "a difference that stays in float64 begins at " + mistake->place_and_rank() +
                        ", within the bound on rounding");
  move_to(one, *mistake);
}

/// Where trainings part by rounding first, and by a mistake then, the mistake is what matters. Rounding that has
/// grown until float64 shows it, too, passes through what is neither for some steps. False where there is none.
bool pass_rounding(Case& one, const Control& control, const compare::PrecisionLadder& ladder,
                   const std::vector<trace::Channel>& channels, const compare::Scope& scope) {
  const auto mistake = first_mistake(ladder, channels, scope);
  if (!mistake) return false;
  one.note(control, "the first difference, at " + one.at().place_and_rank() +
                        ", is rounding; the first that stays in float64 is at " + mistake->place_and_rank());
  move_to(one, *mistake);
  one.at().is_no_rounding = true;
  return true;
}

/// A weight that a run does not hold in float64; null: there is none.
const trace::Record* narrow_weight(const trace::RunTrace& run) {
  const trace::Step* first = run.ranks[0].steps.empty() ? nullptr : &run.ranks[0].steps.front();
  if (first == nullptr) return nullptr;
  const auto found = std::find_if(first->records.begin(), first->records.end(), [](const trace::Record& record) {
    return record.channel == trace::Channel::kWeight && trace::is_floating(record.dtype) &&
           record.dtype != trace::DType::kFloat64;
  });
  return found == first->records.end() ? nullptr : &*found;
}

/// Why runs in float64 decide nothing; empty where they do.
std::string obstacle(const Case& one, const compare::PrecisionLadder& ladder, const trace::RunTrace& left,
                     const trace::RunTrace& right) {
  for (const trace::RunTrace* run : {&left, &right}) {
    const bool is_ours = !one.scenario.variant(variant_of(run->run)).program;  // a program may do what it likes
    const trace::Record* narrow = is_ours ? nullptr : narrow_weight(*run);
    if (narrow != nullptr)
      return run->run + " does not compute in float64: " + narrow->name + " is " + std::string(name_of(narrow->dtype));
  }
  return ladder.obstacle();
}

}  // namespace

std::vector<trace::Channel> compared_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right, bool all) {
  const bool same_shape = compare::same_shape(left, right);
  if (all) return checks::rounding_channels({}, checks::channels_of({}, {}, same_shape));
  const auto promises = [&](const trace::RunTrace& run) { return &one.scenario.variant(variant_of(run.run)); };
  const scenario::CheckSpec& spec = one.check.spec;
  return checks::rounding_channels(spec,
                                   checks::channels_of(spec.channels, {promises(left), promises(right)}, same_shape));
}

void leave_open(Case& one, const Control& control, const std::string& why) {
  if (one.is_mistake()) return;
  one.note(control, why);
  CheckResult& result = one.report.result;
  if (one.is_equal() || result.status == CheckResult::Status::kInconclusive) return;
  result.status = CheckResult::Status::kInconclusive;
  result.why = why;
  result.next = "compare fewer steps: rounding grows with every update";
  if (result.divergence) result.divergence->class_ = scenario::Class::kUndecided;
}

void rule_out_rounding(Case& one) {
  one.at().deny_rounding();
  one.at().is_no_rounding = true;
}

bool may_be_rounding(const Case& one, const Runs& runs) {
  const bool random = one.unstable.has_value() || one.at().class_ == scenario::Class::kNondeterminism;
  if (random || !trace::info(one.at().channel).can_round()) return false;
  const Side left = runs.left(one.at()), right = runs.right(one.at());
  if (is_open(one) || left.run == nullptr || right.run == nullptr) return is_open(one);
  return one.is_equal() && compare::differ_slightly(*left.run, *right.run, place_of(one.at(), left, right));
}

void climb(Case& one, const Control& control, const Runs& before, const Runs& after) {
  const Side left = before.left(one.at()), right = before.right(one.at());
  const Side left64 = after.left(one.at(), true), right64 = after.right(one.at(), true);
  if (left.run == nullptr || right.run == nullptr) return;  // a golden or a closed form has no precision
  if (left64.run == nullptr || right64.run == nullptr) return one.note(control, "one side did not finish");
  if (one.at().step == trace::kInitialStep && compare::draw_otherwise(*left.run, *right.run))
    return one.note(control, "no result: the initial weights are drawn in float32, here by different kernels");
  const compare::PrecisionLadder ladder(*left.run, *right.run, *left64.run, *right64.run);
  if (const std::string why = obstacle(one, ladder, *left64.run, *right64.run); !why.empty())
    return one.note(control, why);
  const auto rungs = ladder.at(place_of(one.at(), left, right));
  if (!rungs) return one.note(control, "the difference could not be measured in both precisions");
  const double samples = laws::Scales(*left.run).samples(one.at().step);
  one.small = samples > 0 && rungs->in_float32 * std::sqrt(samples) <= 1;

  const compare::Ladder::Says says = rungs->says();
  if (says == compare::Ladder::Says::kMistake) {
    one.note(control, "it is not rounding: " + rungs->text());
    if (one.is_up_to_rounding())
      go_back(one, control, ladder, compared_channels(one, *left.run, *right.run), scope_of(one, *right.run));
    return rule_out_rounding(one);
  }
  if (one.is_mistake())
    return one.note(control, "the ranks of one run disagree, which is no rounding: " + rungs->text());
  const bool rounds = says == compare::Ladder::Says::kRounding;
  const bool passes =
      rounds && (one.is_equal() || one.is_up_to_rounding()) &&
      pass_rounding(one, control, ladder, compared_channels(one, *left.run, *right.run), scope_of(one, *right.run));
  if (!passes) {
    // What is done in float32 only shrinks as well: not all that does is rounding.
    if (const auto far = beyond(one, ladder, *left.run, *right.run))
      return deny_rounding(one, control, *far, *left.run, *right.run);
    if (rounds && is_open(one)) one.at().class_ = scenario::Class::kRounding;
    one.asks_one_state =
        rounds && one.is_equal() && one.at().class_ == scenario::Class::kRounding && !ladder.uses_16_bits();
    one.note(control, (rounds ? "it is rounding: " : "float64 leaves open whether it is rounding: ") + rungs->text());
  }
}

void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after) {
  CheckResult& result = one.report.result;
  const bool open = result.status == CheckResult::Status::kInconclusive;
  const bool rounds = result.divergence && result.divergence->class_ == scenario::Class::kRounding;
  if (one.unstable || one.lost || (!open && !rounds)) return;
  std::string doubt;  // why it may be a mistake in float32 all the same
  if (!open && !one.small) doubt = "it shrinks like rounding, but is larger than one sample can make it";
  std::size_t compared = 0;
  bool in_16_bits = false, in_32_bits = false;
  const std::vector<std::string> sides = one.sides();
  for (std::size_t i = 1; i < sides.size(); ++i) {
    const trace::RunTrace* runs[] = {before.first_of(sides[0]), before.first_of(sides[i]), after.first_of(sides[0]),
                                     after.first_of(sides[i])};
    if (std::find(std::begin(runs), std::end(runs), nullptr) != std::end(runs))
      return one.note(control, "a training did not finish");
    const compare::PrecisionLadder ladder(*runs[0], *runs[1], *runs[2], *runs[3]);
    if (const std::string why = obstacle(one, ladder, *runs[2], *runs[3]); !why.empty()) return one.note(control, why);
    if (!compare::is_finite(*runs[0]) || !compare::is_finite(*runs[1]))
      return leave_open(one, control, "NaN or infinity in float32 hides every difference: float64 cannot decide");
    const std::vector<trace::Channel> channels = compared_channels(one, *runs[0], *runs[1]);
    for (const trace::RunTrace* run : {runs[0], runs[1]}) {
      if (const auto apart = checks::ranks_apart(*run, channels)) {
        one.note(control, "the ranks of " + run->run + " disagree in float32, first at " + apart->place_and_rank());
        result = {.status = CheckResult::Status::kDivergence, .compared = result.compared, .divergence = apart};
        return rule_out_rounding(one);
      }
    }
    const compare::Scope scope = scope_of(one, *runs[1]);
    const compare::Comparison comparison = ladder.judge(channels, scope);
    const auto limit = ladder.horizon();
    const bool is_behind = comparison.first && limit && comparison.first->step >= *limit;
    if (comparison.first && !is_behind) {
      one.note(control, "the trainings differ by more than rounding, first at " + comparison.first->place_and_rank() +
                            ": " + comparison.first->relation);
      if (open) {
        result = checks::result_of(comparison);
      } else {
        pass_rounding(one, control, ladder, channels, scope);
      }
      return;
    }
    if (const auto far = is_behind ? std::nullopt : beyond(one, ladder, *runs[0], *runs[1])) {
      result = {.status = CheckResult::Status::kDivergence, .compared = comparison.compared, .divergence = far};
      return deny_rounding(one, control, *far, *runs[0], *runs[1]);
    }
    if (is_behind && doubt.empty())
      doubt = "by step " + std::to_string(*limit) +
              " rounding in float32 is as large as the values: from there on float64 proves nothing (" +
              comparison.first->place_and_rank() + ": " + comparison.first->relation + ")";
    compared += comparison.compared;
    (ladder.uses_16_bits() ? in_16_bits : in_32_bits) = true;
  }
  if (compared == 0) return;
  one.asks_one_state = doubt.empty() ? in_32_bits : !in_16_bits;
  const std::string shrinks = "every difference shrinks like rounding";
  if (!doubt.empty()) return leave_open(one, control, doubt);
  const bool may_step_alone = std::none_of(sides.begin(), sides.end(), [&](const std::string& side) {
    return one.scenario.variant(side).program.has_value();  // which has no switch for that
  });
  if (one.asks_one_state && (may_step_alone || !open))
    return leave_open(one, control, shrinks + "; single steps are undecided");
  one.asks_one_state = false;
  one.note(control, shrinks);
  result = {.compared = compared};
}

}  // namespace lockstep::experiment
