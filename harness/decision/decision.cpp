#include "harness/decision/decision.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "harness/decision/known.h"

namespace lockstep::decision {
namespace {

using scenario::Class;
using Show = Steps::Show;

constexpr std::array<std::string_view, 11> kTrials = {
    "replay",       "diagnosis",    "float64",      "one_state", "another_state", "one_state_there",
    "replay_often", "replay_twice", "replay_there", "fill",      "fill_again"};

// Facts stand in the order of their trials.
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Trial::kFillAgain), Fact>, FillAgain>);

Trial trial_of(const Fact& fact) {
  const auto* const impossible = std::get_if<Impossible>(&fact);
  return impossible != nullptr ? impossible->trial : static_cast<Trial>(fact.index());
}

std::string_view control_of(const Fact& fact) {
  if (std::holds_alternative<Broken>(fact)) return "control runs";
  return name_of(std::holds_alternative<FillAgain>(fact) ? Trial::kFill : trial_of(fact));
}

// ---- what a fact shows ----

/// Reads one fact. It notes what needs no row, and leaves to the rows what decides.
struct Reader {
  Known& known;
  Seen& seen = known.seen;
  Decision& now = known.now;

  void operator()(const Impossible& fact) {
    note("cannot be tried: " + fact.why);
    seen.no_steps = fact.trial == Trial::kOneState;
    seen.text = "it may be a mistake in float32 only";
  }

  void operator()(const Broken& fact) { note(fact.why); }

  void operator()(const Replay& fact) {
    for (const Repeated& one : fact.runs) {
      known.is_lost |= !one.finished;
      if (one.apart && one.finished && !now.unstable) now.unstable = {*one.apart, variant_of(one.run)};
      note(one.run + (!one.finished ? " did not finish when replayed"
                      : one.apart   ? " does not reproduce" + first_at(*one.apart)
                                    : " reproduces bit for bit"));
    }
    if (!known.differs()) return;
    if (!fact.runs.empty() && !known.is_lost) now.again = diagnosis::Again::kSame;
    seen.differs_once = now.unstable.has_value();
    if (!now.unstable) see(now, fact.closeup);
  }

  void operator()(const Diagnosis& fact) { now.result.divergence = fact.at; }

  void operator()(const Float64& fact) {
    if (!fact.at_finding || !known.differs()) return;
    const InFloat64& sides = *fact.at_finding;
    seen.text = sides.silent;
    seen.is_silent = !sides.silent.empty();
    if (seen.is_silent) return;
    known.is_small = sides.is_small;
    seen.trainings = &sides;
    seen.says = sides.rungs->says();
  }

  /// A check up to rounding that is open, or that differs by no more than one sample's effect. The trainings agree if
  /// all differences shrink like rounding and each single step agrees too.
  void operator()(const std::vector<InFloat64>& pairs) {
    const bool is_settled = !known.is_inconclusive() && !known.is_called_rounding();
    if (!known.finding.is_up_to_rounding || is_settled || now.unstable || known.is_lost) return;
    bool is_finite = true;
    for (const InFloat64& pair : pairs) {
      if (!pair.silent.empty() && !std::exchange(seen.is_silent, true)) seen.text = pair.silent;
      if (!pair.silent.empty()) continue;
      is_finite &= pair.is_finite;
      const auto& first = pair.judged.first;
      const bool is_late = first && pair.horizon && first->step >= *pair.horizon;
      if (pair.ranks_apart || (!is_late && (first || pair.beyond))) {  // whatever the others leave open
        seen = {.control = seen.control, .is_of_pairs = true, .trainings = &pair};
        return;
      }
      if (is_late && seen.late == nullptr) seen.late = &pair;
      seen.compared += pair.judged.compared;
      (pair.in_16_bits ? seen.in_16_bits : seen.in_32_bits) = true;
    }
    seen.is_hidden = !seen.is_silent && !is_finite;
    seen.all_shrink = !seen.is_silent && is_finite && seen.compared > 0;
    if (seen.is_hidden) seen.text = "NaN or infinity hides what follows: float64 cannot decide";
  }

  /// One side that is open hides no mistake of another.
  void operator()(const OneState& fact) {
    for (const Steps& one : fact.sides) {
      if (one.shows == Show::kDifferInFloat64) return find(one, "one step differs in float64 too, at ");
      if (one.shows == Show::kUpdateDiffers)
        return find(one, "one update from equal gradients differs more than rounding allows: ");
    }
    for (const Steps& one : fact.sides) {
      if (one.shows != Show::kDifferInFloat32) continue;
      note("one step differs more than rounding allows: " + one.compared.first->place_and_rank() + ", " +
           one.compared.first->relation);
      known.step_differs = true;
    }
    if (known.step_differs) return;
    for (const Steps& one : fact.sides) {
      seen.is_unfinished = one.shows == Show::kUnfinished;
      seen.is_hidden = one.shows == Show::kNotFinite;
      if (seen.is_unfinished)
        seen.text = one.side + " does not finish when each step starts from the state of " + known.finding.sides[0];
      if (seen.is_hidden) seen.text = "NaN or infinity hides every difference";
      if (seen.is_hidden || seen.is_unfinished) return;
      if (one.shows == Show::kAgree) seen.compared += one.compared.compared;
    }
    seen.steps_agree = true;
    seen.text = seen.compared == 0
                    ? "no step from one state could be compared"
                    : "each step from the state of " + known.finding.sides[0] + " is within the rounding of one step";
  }

  /// A kink of a ReLU would have moved with the weights.
  void operator()(const AnotherState& fact) {
    seen.agrees_elsewhere = true;
    seen.text = fact.has_kinks ? "it disappears with other weights: a kink of a ReLU, or a rare mistake"
                               : "it disappears with other weights: a rare mistake, or rounding that grows here";
    for (const Steps& one : fact.sides) {
      if (one.shows == Show::kDifferInFloat32) {
        seen = {.control = seen.control};
        find(one, "it also occurs with other weights, at ");
        known.came_out_again = seen.mistake && fact.leader_repeats;  // the other side has made it twice more then
        return;
      }
      if (one.shows == Show::kUnfinished) seen.text = one.side + " does not finish with other weights";
      if (one.shows == Show::kSameWeights)
        seen.text = fact.has_kinks ? "there are no other weights to try: a kink of a ReLU would look the same"
                                   : "there are no other weights to try";
      if (one.shows != Show::kAgree && one.shows != Show::kIn16Bits) seen.no_other_weights = true;
    }
  }

  void operator()(const OneStateThere& fact) {
    if (!known.at().element) see(now, fact.closeup);
    for (const Repeated& one : fact.runs) {
      if (!one.finished) return;
      if (one.apart) return vary(one, variant_of(one.run) + " does not reproduce", {});
    }
    known.came_out_again = true;
  }

  void operator()(const ReplayOften& fact) {
    for (const Repeated& one : fact.runs) {
      if (!one.finished) note(variant_of(one.run) + " did not finish when replayed");
      if (!one.finished || !one.apart) continue;
      known.is_seen_closely = fact.closeup.element.has_value();
      return vary(one, one.run + " does not always reproduce", {.both_sides = true, .closeup = fact.closeup});
    }
  }

  void operator()(const ReplayTwice& fact) {
    const std::string variant = variant_of(fact.run.run);
    if (!fact.run.finished) return note(variant + " did not finish when replayed");
    if (fact.run.apart)
      return vary(fact.run, variant + " changes from run to run", {.is_to_be_tried = false, .closeup = fact.closeup});
    if (!known.varies) note(variant + ": two more runs matched: rare, or a one-off");
  }

  void operator()(const ReplayThere& fact) { see(now, fact.closeup); }

  void operator()(const Fill& fact) {
    for (const Filled& one : fact.variants) {
      if (!one.finished) return note(one.variant + " did not finish when replayed");
    }
    known.follows_fill = std::any_of(fact.variants.begin(), fact.variants.end(),
                                     [](const Filled& one) { return one.moved.has_value(); });
    if (!known.follows_fill) note("the content of fresh memory has no reproducible effect");
  }

  /// A coin falls like that once: a result that follows the pattern must do so again.
  void operator()(const FillAgain& fact) {
    for (const Filled& one : fact.variants) {
      if (!one.moved) continue;
      seen.follows = &one;
      seen.text = one.variant + " follows the pattern in fresh memory, each time" + first_at(*one.moved);
      return;
    }
    note("the content of fresh memory has no reproducible effect");
    for (const Filled& one : fact.variants) {
      if (!known.varies && one.unlike)
        vary({.run = one.variant, .apart = one.unlike}, one.variant + " does not always reproduce",
             {.both_sides = true});
    }
  }

  static std::string first_at(const Divergence& at) { return ": first difference at " + at.place_and_rank(); }

  void note(std::string shows) { now.shown.push_back({std::string(seen.control), std::move(shows)}); }

  void vary(const Repeated& one, const std::string& does, Varying varying) {
    varying.side = {*one.apart, variant_of(one.run)};
    seen.text = does + first_at(*one.apart);
    seen.varying = std::move(varying);
    known.varies = true;
  }

  /// A step from one state is a mistake, unless an earlier one is known.
  void find(const Steps& side, const char* shows) {
    if (now.is_mistake() && known.at().step < side.compared.first->step) return;
    seen.mistake = &side;
    seen.text = shows;
  }
};

/// Lets the first row that holds decide.
void rule(Known& known) {
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const RowInfo& one) { return one.when(known); });
  if (row == rows().end()) return;
  Decision now = known.now;
  now.row = row->row;
  row->then(known, now);
  known.now = std::move(now);
}

// ---- which trial can change the verdict ----

bool is_from_one_state(const Known& known) {
  const Row row = known.now.row;
  return row == Row::kStepDiffersInFloat64 || row == Row::kUpdateDiffers || row == Row::kStepDiffersAgain;
}

/// It is unexplained, although it comes out alike.
bool is_unknown(const Known& known) {
  return known.is_open() && !known.is_called_rounding() && !is_from_one_state(known);
}

/// One successful replay may be chance. Steps from one state have shown some findings again, and fresh memory with
/// two patterns will show others. Chance does not keep a law.
bool may_be_chance(const Known& known) {
  if (known.now.unstable) return true;
  return !known.came_out_again && known.cause() == diagnosis::Known::kBySigns && (known.is_lost || !is_unknown(known));
}

bool may_be_rounding(const Known& known) {
  const bool is_random = known.now.unstable || known.at().class_ == Class::kNondeterminism;
  if (is_random || !trace::info(known.at().channel).can_round()) return false;
  const Finding& finding = known.finding;
  return known.is_open() || (finding.has_both_runs && finding.wants_same_bits && finding.differs_slightly);
}

bool wants(const Known& known, Trial trial) {
  const bool differs = known.differs(), is_of_repeats = known.finding.is_of_repeats;
  switch (trial) {
    case Trial::kReplay:
      return !is_of_repeats;
    case Trial::kDiagnosis:
      return differs && !is_of_repeats;  // the replay refutes some causes
    case Trial::kFloat64:
      return differs ? may_be_rounding(known) : known.finding.is_up_to_rounding;
    case Trial::kOneState:
      return known.now.asks_steps;
    case Trial::kAnotherState:
      return known.step_differs;
    case Trial::kOneStateThere:
      return is_from_one_state(known) && !(known.at().element && known.came_out_again);
    case Trial::kReplayOften:
      return differs && !is_of_repeats && may_be_chance(known);
    case Trial::kReplayTwice:
      return differs && !known.is_seen_closely && (known.now.unstable || is_of_repeats);
    case Trial::kReplayThere:
      return differs && known.now.has_moved;
    // A difference that varies, or is unexplained, may come from memory that is read before it is written.
    case Trial::kFill:
      return differs && !known.is_lost && (known.varies || is_unknown(known));
    case Trial::kFillAgain:
      return known.follows_fill;
  }
  return false;
}

std::optional<Trial> next_trial(const Known& known, const std::vector<Fact>& facts) {
  if (!facts.empty() && std::holds_alternative<Broken>(facts.back())) return std::nullopt;
  for (std::size_t i = facts.empty() ? 0 : static_cast<std::size_t>(trial_of(facts.back())) + 1; i < kTrials.size();
       ++i) {
    if (wants(known, static_cast<Trial>(i))) return static_cast<Trial>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Trial trial) { return kTrials[static_cast<std::size_t>(trial)]; }

Row row_of(const checks::CheckResult& result) { return decide({.result = result, .sides = {}}, {}).row; }

Decision decide(const Finding& finding, const std::vector<Fact>& facts) {
  Known known{.finding = finding, .now = {.result = finding.result}};
  for (const Fact& fact : facts) {
    known.seen = {.control = control_of(fact)};
    std::visit(Reader{known}, fact);
    rule(known);
    if (const auto* const float64 = std::get_if<Float64>(&fact)) {
      known.seen = {.control = control_of(fact), .is_of_pairs = true};
      Reader{known}(float64->pairs);
      rule(known);
    }
  }
  known.seen = {.is_over = true};
  if (known.now.row == Row::kUnchanged) rule(known);
  known.now.next = next_trial(known, facts);
  return std::move(known.now);
}

}  // namespace lockstep::decision
