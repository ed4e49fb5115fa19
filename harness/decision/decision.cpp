#include "harness/decision/decision.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "harness/diagnosis/causes.h"

namespace lockstep::decision {
namespace {

using checks::CheckResult;
using diagnosis::Again;
using scenario::Class;
using Status = CheckResult::Status;

constexpr std::array<std::string_view, 11> kTrials = {
    "replay",       "diagnosis",    "float64",      "one_state", "another_state", "one_state_there",
    "replay_often", "replay_twice", "replay_there", "fill",      "fill_again"};

// Facts stand in the order of their trials.
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Trial::kFillAgain), Fact>, FillAgain>);

Trial trial_of(const Fact& fact) {
  const auto* const impossible = std::get_if<Impossible>(&fact);
  return impossible != nullptr ? impossible->trial : static_cast<Trial>(fact.index());
}

/// The decision, built up fact by fact.
class Ruling {
 public:
  explicit Ruling(const Finding& finding) : finding_(finding) { now_.result = finding.result; }

  Decision take(const std::vector<Fact>& facts) {
    for (const Fact& fact : facts) std::visit([this](const auto& one) { learn(one); }, fact);
    const bool is_broken = !facts.empty() && std::holds_alternative<Broken>(facts.back());
    const std::size_t first = facts.empty() || is_broken ? 0 : static_cast<std::size_t>(trial_of(facts.back())) + 1;
    for (std::size_t i = first; !is_broken && !now_.next && i < kTrials.size(); ++i) {
      if (wants(static_cast<Trial>(i))) now_.next = static_cast<Trial>(i);
    }
    now_.row = row_.value_or(row_without_trial());
    return std::move(now_);
  }

 private:
  // ---- which trial can change the verdict ----

  bool wants(Trial trial) const {
    switch (trial) {
      case Trial::kReplay:
        return !finding_.is_of_repeats;
      case Trial::kDiagnosis:
        return differs() && !finding_.is_of_repeats;  // the replay refutes some causes
      case Trial::kFloat64:
        return differs() ? may_be_rounding() : finding_.is_up_to_rounding;
      case Trial::kOneState:
        return asks_steps_;
      case Trial::kAnotherState:
        return step_differs_ && !from_one_state_;
      case Trial::kOneStateThere:
        return from_one_state_ && !(at().element && came_out_again_);
      case Trial::kReplayOften:
        return differs() && !finding_.is_of_repeats && may_be_chance();
      case Trial::kReplayTwice:
        return differs() && !seen_closely_ && (now_.unstable || finding_.is_of_repeats);
      case Trial::kReplayThere:
        return differs() && now_.has_moved;
      // A difference that varies, or that nobody can explain, may come from memory that is read before it is written.
      case Trial::kFill:
        return !lost_ && differs() && (varies_ || is_unknown());
      case Trial::kFillAgain:
        return follows_fill_;
    }
    return false;
  }

  bool differs() const { return now_.differs(); }
  Divergence& at() { return *now_.result.divergence; }
  const Divergence& at() const { return *now_.result.divergence; }
  bool is_open() const { return at().suspects.empty() || at().class_ == Class::kRounding; }
  bool is_unknown() const {
    return at().suspects.empty() && at().class_ != Class::kRounding && !from_one_state_;  // which came out alike
  }
  diagnosis::Known known() const {
    if (!differs() || at().suspects.empty()) return diagnosis::Known::kBySigns;
    return diagnosis::find_cause(at().suspects[0].cause)->known;
  }

  /// One successful replay may be chance. Steps from one state have shown some findings again, and fresh memory with
  /// two patterns will show others. Chance does not keep a law.
  bool may_be_chance() const {
    if (now_.unstable) return true;
    return !came_out_again_ && known() == diagnosis::Known::kBySigns && (lost_ || !is_unknown());
  }

  bool may_be_rounding() const {
    const bool random = now_.unstable.has_value() || at().class_ == Class::kNondeterminism;
    if (random || !trace::info(at().channel).can_round()) return false;
    return is_open() || (finding_.has_both_runs && finding_.wants_same_bits && finding_.differs_slightly);
  }

  Row row_without_trial() const {
    if (known() == diagnosis::Known::kBefore) return Row::kTold;
    if (lost_) return Row::kReplayLost;
    if (!differs()) return Row::kUnchanged;
    if (at().phase.empty() && !trace::info(at().channel).can_round()) return Row::kCannotRound;
    return is_open() ? Row::kUnchanged : Row::kNamed;
  }

  // ---- what the facts show ----

  void note(Trial trial, std::string shows) { now_.shown.push_back({std::string(name_of(trial)), std::move(shows)}); }

  void note(Trial trial, Row row, std::string shows) {
    row_ = row;
    note(trial, std::move(shows));
  }

  void learn(const Impossible& fact) {
    note(fact.trial, "cannot be tried: " + fact.why);
    if (fact.trial == Trial::kOneState)
      leave_open(fact.trial, Row::kStepsImpossible, "it may be a mistake in float32 only");
  }

  void learn(const Broken& fact) { now_.shown.push_back({"control runs", fact.why}); }

  void learn(const Replay& fact) {
    for (const Repeated& one : fact.runs) {
      lost_ |= !one.finished;
      if (!one.finished) {
        note(Trial::kReplay, one.run + " did not finish when replayed");
        continue;
      }
      if (one.apart && !now_.unstable) now_.unstable = {*one.apart, variant_of(one.run)};
      note(Trial::kReplay, one.apart
                               ? one.run + " does not reproduce: first difference at " + one.apart->place_and_rank()
                               : one.run + " reproduces bit for bit");
    }
    if (!differs()) return;
    if (!fact.runs.empty() && (!lost_ || now_.unstable)) {
      now_.again = now_.unstable ? Again::kOnceOtherwise : Again::kSame;
      if (now_.unstable) call_nondeterministic(Row::kReplayDiffers);
    }
    if (!now_.unstable) see(fact.closeup);
  }

  void learn(const Diagnosis& fact) { at() = fact.at; }

  void learn(const Float64& fact) {
    if (fact.at_finding && differs()) climb(*fact.at_finding);
    if (finding_.is_up_to_rounding) settle(fact.pairs);
  }

  void learn(const OneState& fact) {
    constexpr Trial kTrial = Trial::kOneState;
    const std::string& first = finding_.sides[0];
    std::size_t compared = 0;
    for (const Steps& one : fact.sides) {  // one side that is open hides no mistake of another
      if (one.shows == Steps::Show::kDifferInFloat64)
        return find_mistake(kTrial, Row::kStepDiffersInFloat64, one, "one step differs in float64 too, at ");
      if (one.shows == Steps::Show::kUpdateDiffers)
        return find_mistake(kTrial, Row::kUpdateDiffers, one,
                            "one update from equal gradients differs more than rounding allows: ");
    }
    for (const Steps& one : fact.sides) {
      if (one.shows != Steps::Show::kDifferInFloat32) continue;
      note(kTrial, "one step differs more than rounding allows: " + one.compared.first->place_and_rank() + ", " +
                       one.compared.first->relation);
      step_differs_ = true;
    }
    if (step_differs_) return;
    for (const Steps& one : fact.sides) {
      switch (one.shows) {
        case Steps::Show::kUnfinished:
          return leave_open(kTrial, Row::kStepsUnfinished,
                            one.side + " does not finish when each step starts from the state of " + first);
        case Steps::Show::kNotFinite:
          return leave_open(kTrial, Row::kNotFinite, "NaN or infinity hides every difference");
        case Steps::Show::kDifferInFloat64:
        case Steps::Show::kUpdateDiffers:
        case Steps::Show::kDifferInFloat32:
        case Steps::Show::kAgree:
          break;
        case Steps::Show::kIn16Bits:
        case Steps::Show::kSameWeights:
          continue;
      }
      compared += one.compared.compared;
    }
    if (compared == 0) return leave_open(kTrial, Row::kNoStepCompared, "no step from one state could be compared");
    note(kTrial, "each step from the state of " + first + " is within the rounding of one step");
    if (now_.is_mistake()) return;
    row_ = Row::kStepsAgree;
    if (finding_.is_up_to_rounding) now_.result = {.compared = compared};
  }

  /// A kink of a ReLU would have moved with the weights.
  void learn(const AnotherState& fact) {
    Row row = Row::kStepDiffersOnce;
    std::string why = fact.has_kinks ? "it disappears with other weights: a kink of a ReLU, or a rare mistake"
                                     : "it disappears with other weights: a rare mistake, or rounding that grows here";
    for (const Steps& one : fact.sides) {
      if (one.shows == Steps::Show::kDifferInFloat32) {
        find_mistake(Trial::kAnotherState, Row::kStepDiffersAgain, one, "with other weights it is there too, at ");
        came_out_again_ = from_one_state_ && fact.leader_repeats;  // the other side has made it twice more then
        return;
      }
      if (one.shows == Steps::Show::kUnfinished) why = one.side + " does not finish with other weights";
      if (one.shows == Steps::Show::kSameWeights)
        why = fact.has_kinks ? "there are no other weights to try: a kink of a ReLU would look the same"
                             : "there are no other weights to try";
      if (one.shows != Steps::Show::kAgree && one.shows != Steps::Show::kIn16Bits) row = Row::kNoOtherWeights;
    }
    leave_open(Trial::kAnotherState, row, why);
  }

  void learn(const OneStateThere& fact) {
    if (!at().element) see(fact.closeup);
    for (const Repeated& one : fact.runs) {
      if (!one.finished) return;
      if (!one.apart) continue;
      note(Trial::kOneStateThere,
           variant_of(one.run) + " does not reproduce: first difference at " + one.apart->place_and_rank());
      return call_random(*one.apart, variant_of(one.run));
    }
    came_out_again_ = true;
  }

  void learn(const ReplayOften& fact) {
    for (const Repeated& one : fact.runs) {
      if (!one.finished) note(Trial::kReplayOften, variant_of(one.run) + " did not finish when replayed");
      if (!one.finished || !one.apart) continue;
      call_random_again(Trial::kReplayOften, *one.apart, variant_of(one.run), one.run);
      return see_random(Trial::kReplayOften, fact.closeup);
    }
  }

  void learn(const ReplayTwice& fact) {
    constexpr Trial kTrial = Trial::kReplayTwice;
    const std::string variant = variant_of(fact.run.run);
    if (!fact.run.finished) return note(kTrial, variant + " did not finish when replayed");
    if (!fact.run.apart && varies_) return;
    if (!fact.run.apart) return note(kTrial, variant + ": two more runs matched: rare, or a one-off");
    mark_random(Row::kVaries);
    note(kTrial, variant + " changes from run to run: first difference at " + fact.run.apart->place_and_rank());
    see_random(kTrial, fact.closeup);
  }

  void learn(const ReplayThere& fact) { see(fact.closeup); }

  void learn(const Fill& fact) {
    for (const Filled& one : fact.variants) {
      if (!one.finished) return note(Trial::kFill, one.variant + " did not finish when replayed");
    }
    follows_fill_ = std::any_of(fact.variants.begin(), fact.variants.end(),
                                [](const Filled& one) { return one.moved.has_value(); });
    if (!follows_fill_) note(Trial::kFill, "the content of fresh memory has no reproducible effect");
  }

  /// A coin falls like that once: a result that follows the pattern must do so again.
  void learn(const FillAgain& fact) {
    const auto moved = std::find_if(fact.variants.begin(), fact.variants.end(),
                                    [](const Filled& one) { return one.moved.has_value(); });
    if (moved == fact.variants.end()) {
      note(Trial::kFill, "the content of fresh memory has no reproducible effect");
      const auto random = std::find_if(fact.variants.begin(), fact.variants.end(),
                                       [](const Filled& one) { return one.unlike.has_value(); });
      if (random == fact.variants.end() || varies_) return;
      return call_random_again(Trial::kFill, *random->unlike, random->variant, random->variant);
    }
    const std::string seen = moved->variant + " follows the pattern in fresh memory, each time: first difference at " +
                             moved->moved->place_and_rank();
    note(Trial::kFill, seen);
    call_random(*moved->moved, moved->variant, Row::kFollowsFill);
    at().suspects = {{"mem.uninitialised", {seen}}};
  }

  // ---- what follows for the verdict ----

  void see(const Closeup& closeup) {
    if (closeup.element) at().element = closeup.element;
    if (closeup.operator_) at().operator_ = closeup.operator_;
    if (closeup.detour && !at().detour) at().detour = closeup.detour;
    if (closeup.is_no_rounding) rule_out_rounding();
  }

  /// Of two runs of one side. The finding's element is of two sides.
  void see_random(Trial trial, const Closeup& closeup) {
    seen_closely_ = closeup.element.has_value();
    if (closeup.element) note(trial, "element " + closeup.element->text());
    if (!closeup.operator_) return;
    at().operator_ = closeup.operator_;
    at().suspects.clear();  // what is known of the operator may say more
  }

  void call_nondeterministic(Row row) {
    row_ = row;
    if (at().class_ == Class::kRounding) at().deny_rounding();
    at().class_ = Class::kNondeterminism;
  }

  void mark_random(Row row) {
    varies_ = true;
    now_.again = Again::kEachTimeOtherwise;
    call_nondeterministic(row);
  }

  void call_random(const Divergence& where, const std::string& variant, Row row = Row::kVaries) {
    if (!now_.unstable) now_.unstable = {where, variant};
    mark_random(row);
  }

  /// `who`: the run or variant that came out as before at least once.
  void call_random_again(Trial trial, const Divergence& where, const std::string& variant, const std::string& who) {
    note(trial, who + " does not always reproduce: first difference at " + where.place_and_rank());
    call_random(where, variant);
    at().element.reset();  // of two sides that are random
    at().operator_.reset();
  }

  /// Another finding, of which nothing is known yet.
  void find(CheckResult result, Again again = Again::kNotTried) {
    now_.result = std::move(result);
    now_.again = again;
    now_.has_moved = false;
  }

  void rule_out_rounding() {
    at().deny_rounding();
    now_.result.is_no_rounding = true;
  }

  /// Undecided between rounding and a mistake. A check `equal` stays red.
  void leave_open(Trial trial, Row row, const std::string& why) {
    if (now_.is_mistake()) return;
    note(trial, row, why);
    CheckResult& result = now_.result;
    // One step is more than it can round, or nobody knows what NaN hides.
    const bool may_be_more = step_differs_ || row == Row::kNotFinite;
    if (may_be_more && differs() && at().class_ == Class::kRounding) {
      at().class_ = Class::kUndecided;
      at().suspects.clear();
    }
    if (finding_.wants_same_bits) return;
    result.status = Status::kInconclusive;
    const CheckResult& compared = finding_.result;  // what it says of the place, if it was open already, holds
    result.why = compared.why.empty() ? why : compared.why + "; " + why;
    result.next = compared.next.empty() ? "compare fewer steps: rounding grows with every update" : compared.next;
    if (result.divergence) at().class_ = Class::kUndecided;
  }

  /// Moves the finding behind the rounding that comes before it.
  void move_to(const Divergence& there) {
    at() = there;
    now_.has_moved = true;
  }

  /// Float64 has taken it away, and yet it is a mistake. An earlier difference of the step is its doing, too, unless
  /// the two cut their batches otherwise.
  void deny_rounding(const InFloat64& pair) {
    const Divergence& beyond = *pair.beyond;
    note(Trial::kFloat64, Row::kBeyondRounding,
         "it shrinks like rounding, but is far larger than rounding can be, at " + beyond.place_and_rank() +
             ": a mistake in float32 only");
    const bool earlier_in_step = at().step == beyond.step && at().channel < beyond.channel;
    asks_steps_ = finding_.is_up_to_rounding || at().step < beyond.step;  // it may begin where it was too small to see
    if (at().step < beyond.step || (earlier_in_step && !pair.same_shape)) move_to(beyond);
    rule_out_rounding();
  }

  /// Where trainings part by rounding first, and by a mistake then, the mistake is what matters.
  void pass_rounding(const Divergence& mistake) {
    note(Trial::kFloat64, Row::kBehindRounding,
         "the first difference, at " + at().place_and_rank() + ", is rounding; the first that stays in float64 is at " +
             mistake.place_and_rank());
    move_to(mistake);
    now_.result.is_no_rounding = true;
  }

  /// A mistake may begin where the bound on rounding does not show it yet.
  void go_back(const Divergence& mistake) {
    if (std::pair(mistake.step, mistake.channel) >= std::pair(at().step, at().channel)) return;
    note(Trial::kFloat64, Row::kBeginsEarlier,
         "a difference that stays in float64 begins at " + mistake.place_and_rank() + ", within the bound on rounding");
    move_to(mistake);
  }

  /// The place of the finding in both precisions.
  void climb(const InFloat64& sides) {
    constexpr Trial kTrial = Trial::kFloat64;
    if (!sides.silent.empty()) return note(kTrial, Row::kFloat64Silent, sides.silent);
    is_small_ = sides.is_small;
    const compare::Ladder::Says says = sides.rungs->says();
    if (says == compare::Ladder::Says::kMistake) {
      note(kTrial, Row::kStaysInFloat64, "it is not rounding: " + sides.rungs->text());
      if (finding_.is_up_to_rounding && sides.mistake) go_back(*sides.mistake);
      return rule_out_rounding();
    }
    if (now_.is_mistake())
      return note(kTrial, Row::kRanksDisagree,
                  "the ranks of one run disagree, which is no rounding: " + sides.rungs->text());
    const bool rounds = says == compare::Ladder::Says::kRounding;
    if (rounds && sides.mistake && (finding_.wants_same_bits || finding_.is_up_to_rounding))
      return pass_rounding(*sides.mistake);
    if (sides.beyond) return deny_rounding(sides);
    if (rounds && is_open()) at().class_ = Class::kRounding;
    asks_steps_ = rounds && finding_.wants_same_bits && at().class_ == Class::kRounding && !sides.in_16_bits;
    note(kTrial, rounds ? Row::kShrinks : Row::kFloat64Open,
         (rounds ? "it is rounding: " : "float64 leaves open whether it is rounding: ") + sides.rungs->text());
  }

  /// A check up to rounding that is open, or that differs by no more than one sample's effect. The trainings agree if
  /// all differences shrink like rounding and each single step agrees too.
  void settle(const std::vector<InFloat64>& pairs) {
    constexpr Trial kTrial = Trial::kFloat64;
    CheckResult& result = now_.result;
    const bool open = result.status == Status::kInconclusive;
    const bool rounds = result.divergence && at().class_ == Class::kRounding;
    if (now_.unstable || lost_ || (!open && !rounds)) return;
    std::string doubt;  // why it may be a mistake in float32 all the same
    Row row = Row::kStepsUndecided;
    if (!open && !is_small_) {
      doubt = "it shrinks like rounding, but is larger than one sample can make it";
      row = Row::kLargerThanOneSample;
    }
    std::string silent;
    bool is_finite = true;
    std::size_t compared = 0;
    bool in_16_bits = false, in_32_bits = false;
    for (const InFloat64& pair : pairs) {
      if (!pair.silent.empty()) {
        if (silent.empty()) silent = pair.silent;
        continue;
      }
      is_finite &= pair.is_finite;
      if (pair.ranks_apart) {
        note(kTrial, Row::kRanksDisagree,
             "the ranks of " + pair.ranks_apart->right.run + " disagree in float32, first at " +
                 pair.ranks_apart->place_and_rank());
        find({.status = Status::kDivergence, .compared = result.compared, .divergence = pair.ranks_apart});
        return rule_out_rounding();
      }
      const auto& first = pair.judged.first;
      const bool is_behind = first && pair.horizon && first->step >= *pair.horizon;
      if (first && !is_behind) {
        note(
            kTrial, Row::kPairsDiffer,
            "the trainings differ by more than rounding, first at " + first->place_and_rank() + ": " + first->relation);
        if (!open && pair.mistake) return pass_rounding(*pair.mistake);
        return find(checks::result_of(pair.judged));
      }
      if (!is_behind && pair.beyond) {
        find({.status = Status::kDivergence, .compared = pair.judged.compared, .divergence = pair.beyond});
        return deny_rounding(pair);
      }
      if (is_behind && doubt.empty()) {
        row = Row::kHorizon;
        doubt = "by step " + std::to_string(*pair.horizon) +
                " rounding in float32 is as large as the values: from there on float64 proves nothing (" +
                first->place_and_rank() + ": " + first->relation + ")";
      }
      compared += pair.judged.compared;
      (pair.in_16_bits ? in_16_bits : in_32_bits) = true;
    }
    if (!silent.empty())
      return rounds ? leave_open(kTrial, Row::kFloat64Silent, silent) : note(kTrial, Row::kFloat64Silent, silent);
    if (!is_finite)
      return leave_open(kTrial, Row::kNotFinite, "NaN or infinity hides what comes behind: float64 cannot decide");
    if (compared == 0) return;
    asks_steps_ = doubt.empty() ? in_32_bits : !in_16_bits;
    const std::string shrinks = "every difference shrinks like rounding";
    if (!doubt.empty()) return leave_open(kTrial, row, doubt);
    if (asks_steps_ && (finding_.can_step_alone || !open))
      return leave_open(kTrial, row, shrinks + "; single steps are undecided");
    asks_steps_ = false;
    note(kTrial, Row::kAllShrink, shrinks);
    result = {.compared = compared};
  }

  /// A step from one state is a mistake.
  void find_mistake(Trial trial, Row row, const Steps& side, const std::string& shows) {
    Divergence there = *side.compared.first;
    if (now_.is_mistake() && at().step < there.step) return;  // which is the first one
    there.left.run = finding_.sides[0] + "/0";
    there.right.run = side.side + "/0";
    note(trial, row, shows + there.place_and_rank() + ", " + there.relation);
    find({.status = Status::kDivergence, .compared = side.compared.compared, .divergence = std::move(there)},
         Again::kSame);
    rule_out_rounding();
    from_one_state_ = true;
    see(side.closeup);
  }

  const Finding& finding_;
  Decision now_;
  std::optional<Row> row_;
  bool lost_ = false;            // a replay did not finish
  bool varies_ = false;          // more runs of a side differed too
  bool seen_closely_ = false;    // and where, in its elements
  bool is_small_ = false;        // the difference is no larger than one sample's effect
  bool asks_steps_ = false;      // single steps from one state can decide
  bool step_differs_ = false;    // a step from one state differs, in float32
  bool from_one_state_ = false;  // and that step is a mistake
  bool came_out_again_ = false;
  bool follows_fill_ = false;
};

}  // namespace

std::string_view name_of(Trial trial) { return kTrials[static_cast<std::size_t>(trial)]; }

Row row_of(const checks::CheckResult& result) { return decide({.result = result, .sides = {}}, {}).row; }

Decision decide(const Finding& finding, const std::vector<Fact>& facts) { return Ruling(finding).take(facts); }

}  // namespace lockstep::decision
