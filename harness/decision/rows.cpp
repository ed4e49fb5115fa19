#include <utility>

#include "harness/decision/known.h"

namespace lockstep::decision {
namespace {

using checks::CheckResult;
using Says = compare::Ladder::Says;
using diagnosis::Again;
using scenario::Class;
using Cause = diagnosis::Known;
using Show = Steps::Show;
using Status = CheckResult::Status;

void keep(const Known&, Decision&) {}

bool cannot_round(const Known& known) {
  return known.differs() && known.at().phase.empty() && !trace::info(known.at().channel).can_round();
}

std::string rungs(const Known& known) { return known.seen.trainings->rungs->text(); }

void note(const Known& known, Decision& now, std::string shows) {
  now.shown.push_back({std::string(known.seen.control), std::move(shows)});
}

/// Another finding.
void find(Decision& now, CheckResult result, Again again = Again::kNotTried) {
  now.result = std::move(result);
  now.again = again;
  now.has_moved = false;
}

void find_mistake(Decision& now, std::size_t compared, const Divergence& at, Again again = Again::kNotTried) {
  find(now, {.status = Status::kDivergence, .compared = compared, .divergence = at}, again);
  rule_out_rounding(now);
}

void move_to(const Divergence& there, Decision& now) {
  now.result.divergence = there;
  now.has_moved = true;
}

/// Undecided between rounding and a mistake, unless a mistake is known. A check `equal` stays red.
void leave_open_for(const Known& known, Decision& now, const std::string& why) {
  if (now.is_mistake()) {
    now.row = known.now.row;
    return;
  }
  note(known, now, why);
  // One step is more than it can round, or NaN hides something.
  if (known.is_called_rounding() && (known.step_differs || known.seen.is_hidden)) {
    now.result.divergence->class_ = Class::kUndecided;
    now.result.divergence->suspects.clear();
  }
  if (known.finding.wants_same_bits) return;
  now.result.status = Status::kInconclusive;
  const CheckResult& compared = known.finding.result;  // what it says of the place, if it was open already, holds
  now.result.why = compared.why.empty() ? why : compared.why + "; " + why;
  now.result.next = compared.next.empty() ? "compare fewer steps: rounding grows with every update" : compared.next;
  if (now.differs()) now.result.divergence->class_ = Class::kUndecided;
}

void leave_open(const Known& known, Decision& now) { leave_open_for(known, now, known.seen.text); }

// ---- replays ----

void call_random(Decision& now, Again again) {
  if (now.at().class_ == Class::kRounding) now.result.divergence->deny_rounding();
  now.result.divergence->class_ = Class::kNondeterminism;
  now.again = again;
}

void vary(const Known& known, Decision& now) {
  const Varying& one = *known.seen.varying;
  note(known, now, known.seen.text);
  call_random(now, Again::kEachTimeOtherwise);
  if (!now.unstable && one.is_to_be_tried) now.unstable = one.side;
  Divergence& at = *now.result.divergence;
  if (one.both_sides) {  // its element and operator are of two sides that are random
    at.element.reset();
    at.operator_.reset();
  }
  if (one.closeup.element) note(known, now, "element " + one.closeup.element->text());
  if (!one.closeup.operator_) return;
  at.operator_ = one.closeup.operator_;
  at.suspects.clear();  // what is known of the operator may say more
}

void follow_fill(const Known& known, Decision& now) {
  note(known, now, known.seen.text);
  call_random(now, Again::kEachTimeOtherwise);
  if (!now.unstable) now.unstable = {*known.seen.follows->moved, known.seen.follows->variant};
  now.result.divergence->suspects = {{"mem.uninitialised", {known.seen.text}}};
}

// ---- float64 ----

/// A mistake may begin where the bound on rounding does not show it yet.
bool begins_earlier(const Known& known) {
  if (known.seen.says != Says::kMistake || !known.finding.is_up_to_rounding) return false;
  const auto& mistake = known.seen.trainings->mistake;
  return mistake && std::pair(mistake->step, mistake->channel) < std::pair(known.at().step, known.at().channel);
}

void stay(const Known& known, Decision& now) {
  note(known, now, "it is not rounding: " + rungs(known));
  rule_out_rounding(now);
}

void stay_earlier(const Known& known, Decision& now) {
  const Divergence& there = *known.seen.trainings->mistake;
  stay(known, now);
  note(known, now,
       "a difference that stays in float64 begins at " + there.place_and_rank() + ", within the bound on rounding");
  move_to(there, now);
  rule_out_rounding(now);
}

bool ranks_disagree(const Known& known) {
  if (!known.seen.is_of_pairs) return known.seen.says && known.now.is_mistake();
  return known.seen.trainings != nullptr && known.seen.trainings->ranks_apart;
}

void find_ranks(const Known& known, Decision& now) {
  const InFloat64& trainings = *known.seen.trainings;
  if (!known.seen.is_of_pairs)
    return note(known, now, "the ranks of one run disagree, which rounding cannot cause: " + rungs(known));
  const Divergence& apart = *trainings.ranks_apart;
  note(known, now, "the ranks of " + apart.right.run + " disagree in float32, first at " + apart.place_and_rank());
  find_mistake(now, now.result.compared, apart);
}

bool is_behind_rounding(const Known& known) {
  const InFloat64* const trainings = known.seen.trainings;
  if (trainings == nullptr || !trainings->mistake) return false;
  if (known.seen.is_of_pairs) return trainings->judged.first && !known.is_inconclusive();
  return known.seen.says == Says::kRounding && (known.finding.wants_same_bits || known.finding.is_up_to_rounding);
}

void note_pair(const Known& known, Decision& now) {
  const Divergence& first = *known.seen.trainings->judged.first;
  note(known, now,
       "the trainings differ by more than rounding, first at " + first.place_and_rank() + ": " + first.relation);
}

void find_pair(const Known& known, Decision& now) {
  note_pair(known, now);
  find(now, checks::result_of(known.seen.trainings->judged));
}

/// Where trainings part by rounding first, and by a mistake then, the mistake is what matters.
void pass_rounding(const Known& known, Decision& now) {
  if (known.seen.is_of_pairs) note_pair(known, now);
  const Divergence& mistake = *known.seen.trainings->mistake;
  note(known, now,
       "the first difference, at " + known.at().place_and_rank() +
           ", is rounding; the first that stays in float64 is at " + mistake.place_and_rank());
  move_to(mistake, now);
  now.result.is_no_rounding = true;
}

/// Float64 has taken it away, and yet it is a mistake. An earlier difference of the step is its doing, too, unless
/// the two cut their batches otherwise.
void deny_rounding(const Known& known, Decision& now) {
  const InFloat64& trainings = *known.seen.trainings;
  const Divergence& beyond = *trainings.beyond;
  if (known.seen.is_of_pairs) find_mistake(now, trainings.judged.compared, beyond);
  note(known, now,
       "it shrinks like rounding, but is far larger than rounding can be, at " + beyond.place_and_rank() +
           ": a mistake in float32 only");
  const bool is_later = now.at().step < beyond.step;
  const bool is_later_in_step = now.at().step == beyond.step && now.at().channel < beyond.channel;
  now.asks_steps = known.finding.is_up_to_rounding || is_later;  // it may begin where it was too small to see
  if (is_later || (is_later_in_step && !trainings.same_shape)) move_to(beyond, now);
  rule_out_rounding(now);
}

void stay_silent(const Known& known, Decision& now) {
  if (known.seen.is_of_pairs && known.is_called_rounding()) return leave_open(known, now);
  note(known, now, known.seen.text);
}

void shrink(const Known& known, Decision& now) {
  if (known.is_open()) now.result.divergence->class_ = Class::kRounding;
  const bool is_rounding = now.at().class_ == Class::kRounding;
  now.asks_steps = known.finding.wants_same_bits && is_rounding && !known.seen.trainings->in_16_bits;
  note(known, now, "it is rounding: " + rungs(known));
}

/// Single steps must tell.
void doubt(const Known& known, Decision& now) {
  now.asks_steps = now.row == Row::kStepsUndecided || !known.seen.in_16_bits;
  std::string why = "every difference shrinks like rounding; single steps are undecided";
  if (now.row == Row::kLargerThanOneSample) why = "it shrinks like rounding, but is larger than one sample can make it";
  if (now.row == Row::kHorizon)
    why = "by step " + std::to_string(*known.seen.late->horizon) +
          " rounding in float32 is as large as the values: from there on float64 proves nothing (" +
          known.seen.late->judged.first->place_and_rank() + ": " + known.seen.late->judged.first->relation + ")";
  leave_open_for(known, now, why);
}

void agree(const Known& known, Decision& now) {
  now.asks_steps = false;
  note(known, now, "every difference shrinks like rounding");
  now.result = {.compared = known.seen.compared};
}

// ---- single steps ----

template <auto kWhat>
bool seen(const Known& known) {
  return static_cast<bool>(known.seen.*kWhat);
}

template <Show shows>
bool has_step(const Known& known) {
  return known.seen.mistake != nullptr && known.seen.mistake->shows == shows;
}

void find_step(const Known& known, Decision& now) {
  const Steps& side = *known.seen.mistake;
  Divergence there = *side.compared.first;
  there.left.run = known.finding.sides[0] + "/0";
  there.right.run = side.side + "/0";
  note(known, now, known.seen.text + there.place_and_rank() + ", " + there.relation);
  find_mistake(now, side.compared.compared, there, Again::kSame);
  see(now, side.closeup);
}

void agree_in_steps(const Known& known, Decision& now) {
  note(known, now, known.seen.text);
  if (now.is_mistake()) now.row = known.now.row;
  if (!now.is_mistake() && known.finding.is_up_to_rounding) now.result = {.compared = known.seen.compared};
}

// ---- the table of docs/rounding.md ----

constexpr RowInfo kRows[] = {
    // The comparison, where no trial says more.
    {Row::kTold, "told", [](const Known& k) { return k.seen.is_over && k.cause() == Cause::kBefore; }, keep},
    {Row::kReplayLost, "replay_lost", [](const Known& k) { return k.seen.is_over && k.is_lost; }, keep},
    {Row::kCannotRound, "cannot_round", [](const Known& k) { return k.seen.is_over && cannot_round(k); }, keep},
    {Row::kNamed, "named", [](const Known& k) { return k.seen.is_over && k.differs() && !k.is_open(); }, keep},
    {Row::kUnchanged, "unchanged", seen<&Seen::is_over>, keep},

    // Replays.
    {Row::kReplayDiffers, "replay_differs", seen<&Seen::differs_once>,
     [](const Known&, Decision& now) { call_random(now, Again::kOnceOtherwise); }},
    {Row::kFollowsFill, "follows_fill", seen<&Seen::follows>, follow_fill},
    {Row::kVaries, "varies", seen<&Seen::varying>, vary},

    // Float64.
    {Row::kBeginsEarlier, "begins_earlier", begins_earlier, stay_earlier},
    {Row::kStaysInFloat64, "stays_in_float64", [](const Known& k) { return k.seen.says == Says::kMistake; }, stay},
    {Row::kRanksDisagree, "ranks_disagree", ranks_disagree, find_ranks},
    {Row::kBehindRounding, "behind_rounding", is_behind_rounding, pass_rounding},
    {Row::kPairsDiffer, "pairs_differ",
     [](const Known& k) { return k.seen.is_of_pairs && k.seen.trainings && k.seen.trainings->judged.first; },
     find_pair},
    {Row::kBeyondRounding, "beyond_rounding",
     [](const Known& k) { return k.seen.trainings && k.seen.trainings->beyond; }, deny_rounding},
    {Row::kShrinks, "shrinks", [](const Known& k) { return k.seen.says == Says::kRounding; }, shrink},
    {Row::kFloat64Open, "float64_open", [](const Known& k) { return k.seen.says == Says::kNothing; },
     [](const Known& k, Decision& now) { note(k, now, "float64 leaves open whether it is rounding: " + rungs(k)); }},
    {Row::kFloat64Silent, "float64_silent", seen<&Seen::is_silent>, stay_silent},
    {Row::kNotFinite, "not_finite", seen<&Seen::is_hidden>, leave_open},
    {Row::kLargerThanOneSample, "larger_than_one_sample",
     [](const Known& k) { return k.seen.all_shrink && !k.is_inconclusive() && !k.is_small; }, doubt},
    {Row::kHorizon, "horizon", [](const Known& k) { return k.seen.all_shrink && k.seen.late; }, doubt},
    {Row::kStepsUndecided, "steps_undecided",
     [](const Known& k) {
       return k.seen.all_shrink && k.seen.in_32_bits && (k.finding.can_step_alone || !k.is_inconclusive());
     },
     doubt},
    {Row::kAllShrink, "all_shrink", seen<&Seen::all_shrink>, agree},

    // Single steps.
    {Row::kStepsImpossible, "steps_impossible", seen<&Seen::no_steps>, leave_open},
    {Row::kStepDiffersInFloat64, "step_differs_in_float64", has_step<Show::kDifferInFloat64>, find_step},
    {Row::kUpdateDiffers, "update_differs", has_step<Show::kUpdateDiffers>, find_step},
    {Row::kStepsUnfinished, "steps_unfinished", seen<&Seen::is_unfinished>, leave_open},
    {Row::kNoStepCompared, "no_step_compared",
     [](const Known& k) { return k.seen.steps_agree && k.seen.compared == 0; }, leave_open},
    {Row::kStepsAgree, "steps_agree", seen<&Seen::steps_agree>, agree_in_steps},
    {Row::kStepDiffersAgain, "step_differs_again", has_step<Show::kDifferInFloat32>, find_step},
    {Row::kNoOtherWeights, "no_other_weights", seen<&Seen::no_other_weights>, leave_open},
    {Row::kStepDiffersOnce, "step_differs_once", seen<&Seen::agrees_elsewhere>, leave_open},
};

}  // namespace

std::span<const RowInfo> rows() { return kRows; }

std::string_view name_of(Row row) { return kRows[static_cast<std::size_t>(row)].id; }

void rule_out_rounding(Decision& now) {
  now.result.divergence->deny_rounding();
  now.result.is_no_rounding = true;
}

void see(Decision& now, const Closeup& closeup) {
  Divergence& at = *now.result.divergence;
  if (closeup.element) at.element = closeup.element;
  if (closeup.operator_) at.operator_ = closeup.operator_;
  if (closeup.detour && !at.detour) at.detour = closeup.detour;
  if (closeup.is_no_rounding) rule_out_rounding(now);
}

}  // namespace lockstep::decision
