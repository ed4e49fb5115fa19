#include "harness/experiment/readings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/compare/beyond_rounding.h"
#include "harness/compare/repeats.h"
#include "harness/compare/rounding.h"
#include "harness/experiment/closeup.h"
#include "harness/laws/scales.h"

namespace lockstep::experiment {
namespace {

using trace::RunTrace;

/// Runs whose records the finding is about; of a check up to rounding all of them: what float64 settles for the
/// trainings must hold for every run.
std::vector<const RunTrace*> runs_of(const Case& one, const Runs& before) {
  std::vector<const RunTrace*> runs;
  if (one.finding.is_up_to_rounding) {
    for (const std::string& variant : one.sides()) {
      for (const RunTrace* run : before.all_of(variant)) runs.push_back(run);
    }
  } else if (one.differs()) {
    for (const Side& side : {before.left(one.at()), before.right(one.at())}) {
      if (side.run != nullptr && std::find(runs.begin(), runs.end(), side.run) == runs.end()) runs.push_back(side.run);
    }
  }
  return runs;
}

Looked looked(const Case& one) {
  return one.finding.is_up_to_rounding ? Looked::kBehindRounding : Looked::kFromTheStart;
}

Closeup closeup_in(const Case& one, const Runs& runs, Looked looked) {
  if (!one.differs()) return {};
  return closeup_of(one.at(), runs.left(one.at(), true), runs.right(one.at(), true), looked);
}

/// The part of two runs that must be equal.
compare::Scope scope_of(const Case& one, const RunTrace& right) {
  if (one.check.spec.traits().sides != scenario::Sides::kResumption || right.ranks[0].steps.empty()) return {};
  return checks::after_loading(one.scenario, one.check.spec, right);
}

/// A closeup of two runs of one side.
Closeup closeup_of_runs(const Divergence& at, const RunTrace& first, const RunTrace& second) {
  const auto rank = static_cast<std::size_t>(at.rank);
  return closeup_of(at, {.run = &first, .rank = rank}, {.run = &second, .rank = rank}, Looked::kFromTheStart);
}

/// A weight that a run does not hold in float64; null: there is none.
const trace::Record* narrow_weight(const RunTrace& run) {
  const trace::Step* first = run.ranks[0].steps.empty() ? nullptr : &run.ranks[0].steps.front();
  if (first == nullptr) return nullptr;
  const auto found = std::find_if(first->records.begin(), first->records.end(), [](const trace::Record& record) {
    return record.channel == trace::Channel::kWeight && trace::is_floating(record.dtype) &&
           record.dtype != trace::DType::kFloat64;
  });
  return found == first->records.end() ? nullptr : &*found;
}

/// Two trainings in both precisions.
class TwoPrecisions {
 public:
  TwoPrecisions(const Case& one, const RunTrace& left, const RunTrace& right, const RunTrace& left64,
                const RunTrace& right64)
      : one_(one),
        left_(left),
        right_(right),
        left64_(left64),
        right64_(right64),
        ladder_(left, right, left64, right64),
        channels_(compared_channels(one, left, right)),
        scope_(scope_of(one, right)) {
    scope_.end_step = compare::comparable_until(left, right, left64, right64);
  }

  /// Judges the trainings up to a place, where NaN would hide all. Without one they are judged until it does.
  InFloat64 facts(std::optional<std::int64_t> place = {}) const {
    return {.silent = obstacle(place.value_or(trace::kInitialStep - 1)),
            .is_finite = scope_.end_step == compare::kNoStep,
            .in_16_bits = ladder_.uses_16_bits(),
            .same_shape = compare::same_shape(left_, right_)};
  }

  const compare::PrecisionLadder& ladder() const { return ladder_; }
  const std::vector<trace::Channel>& channels() const { return channels_; }
  const compare::Comparison& judge() {
    if (!judged_) judged_ = ladder_.judge(channels_, scope_);
    return *judged_;
  }

  /// The first difference that stays in float64, unless rounding may have grown into it.
  std::optional<Divergence> mistake() {
    const auto mistake = ladder_.first_mistake(channels_, scope_);
    const bool grew = mistake && judge().first.value_or(*mistake).step != mistake->step;
    return grew ? std::nullopt : mistake;
  }

  /// Where the two part by more than any rounding.
  std::optional<Divergence> beyond() const {
    if (&left_ == &right_) return std::nullopt;
    const auto training = [&](const RunTrace& run) {
      return compare::Training{run, one_.scenario.variant(variant_of(run.run))};
    };
    return if_finite(compare::beyond_rounding(training(left_), training(right_), ladder_, channels_));
  }

  /// A place, unless NaN or infinity may have made it.
  std::optional<Divergence> if_finite(std::optional<Divergence> at) const {
    return at && at->step >= scope_.end_step ? std::nullopt : std::move(at);
  }

 private:
  std::string obstacle(std::int64_t until) const {
    for (const RunTrace* run : {&left64_, &right64_}) {
      const bool is_ours = !one_.scenario.variant(variant_of(run->run)).program;  // a program may do what it likes
      const trace::Record* narrow = is_ours ? nullptr : narrow_weight(*run);
      if (narrow != nullptr)
        return run->run + " does not compute in float64: " + narrow->name + " is " +
               std::string(name_of(narrow->dtype));
    }
    return ladder_.obstacle(until);
  }

  const Case& one_;
  const RunTrace &left_, &right_, &left64_, &right64_;
  compare::PrecisionLadder ladder_;
  std::vector<trace::Channel> channels_;
  compare::Scope scope_;                       // up to the first number of any run that is not finite
  std::optional<compare::Comparison> judged_;  // asked for twice
};

/// The two sides of a finding. Nothing if one is a golden or a closed form, which has no precision.
std::optional<InFloat64> read_at_finding(const Case& one, const Runs& before, const Runs& after) {
  const Divergence& at = one.at();
  const Side left = before.left(at), right = before.right(at);
  const Side left64 = after.left(at, true), right64 = after.right(at, true);
  if (left.run == nullptr || right.run == nullptr) return std::nullopt;
  if (left64.run == nullptr || right64.run == nullptr) return InFloat64{.silent = "one side did not finish"};
  if (at.step == trace::kInitialStep && compare::draw_otherwise(*left.run, *right.run))
    return InFloat64{.silent = "no result: the initial weights are drawn in float32, here by different kernels"};
  TwoPrecisions pair(one, *left.run, *right.run, *left64.run, *right64.run);
  InFloat64 facts = pair.facts(at.step);  // what is NaN later hides nothing here
  if (!facts.silent.empty()) return facts;
  facts.rungs = pair.ladder().at(place_of(at, left, right));
  if (!facts.rungs) return InFloat64{.silent = "the difference could not be measured in both precisions"};
  const double samples = laws::Scales(*left.run).samples(at.step);
  facts.is_small = samples > 0 && facts.rungs->in_float32 * std::sqrt(samples) <= 1;
  const compare::Ladder::Says says = facts.rungs->says();
  const bool is_mistake = says == compare::Ladder::Says::kMistake;
  if (says != compare::Ladder::Says::kNothing &&
      (one.finding.is_up_to_rounding || (one.finding.wants_same_bits && !is_mistake)))
    facts.mistake = pair.mistake();
  if (!is_mistake && !facts.mistake) facts.beyond = pair.beyond();
  return facts;
}

/// Two trainings of a check up to rounding, as a whole. The last facts are left out where the first ones decide.
InFloat64 read_pair(const Case& one, const std::array<const RunTrace*, 4>& runs) {
  if (std::find(runs.begin(), runs.end(), nullptr) != runs.end()) return {.silent = "a training did not finish"};
  TwoPrecisions pair(one, *runs[0], *runs[1], *runs[2], *runs[3]);
  InFloat64 facts = pair.facts();
  if (!facts.silent.empty()) return facts;
  for (const RunTrace* run : {runs[0], runs[1]}) {
    if (!facts.ranks_apart) facts.ranks_apart = pair.if_finite(checks::ranks_apart(*run, pair.channels()));
  }
  if (facts.ranks_apart) return facts;
  facts.judged = pair.judge();
  facts.horizon = pair.ladder().horizon();
  facts.mistake = facts.judged.first ? pair.mistake() : std::nullopt;
  facts.beyond = facts.judged.first ? std::nullopt : pair.beyond();
  return facts;
}

}  // namespace

std::vector<trace::Channel> compared_channels(const Case& one, const RunTrace& left, const RunTrace& right, bool all) {
  const bool same_shape = compare::same_shape(left, right);
  if (all) return checks::rounding_channels({}, checks::channels_of({}, {}, same_shape));
  const auto promises = [&](const RunTrace& run) { return &one.scenario.variant(variant_of(run.run)); };
  const scenario::CheckSpec& spec = one.check.spec;
  return checks::rounding_channels(
      spec, checks::channels_of(spec.channels, {promises(left), promises(right)}, same_shape), left, right);
}

Replay read_replay(const Case& one, const Runs& before, const Runs& again) {
  Replay fact;
  for (const RunTrace* run : runs_of(one, before)) {
    const RunTrace* second = again.side(run->run, 0, /*any_repeat=*/true).run;
    fact.runs.push_back({.run = run->run, .finished = second != nullptr});
    if (second != nullptr) fact.runs.back().apart = compare::part_bitwise(*run, *second);
  }
  fact.closeup = closeup_in(one, again, looked(one));
  return fact;
}

Float64 read_float64(const Case& one, const Runs& before, const Runs& after) {
  Float64 fact;
  if (one.differs()) fact.at_finding = read_at_finding(one, before, after);
  if (!one.finding.is_up_to_rounding) return fact;
  const std::vector<std::string>& sides = one.sides();
  for (std::size_t i = 1; i < sides.size(); ++i)
    fact.pairs.push_back(read_pair(one, {before.first_of(sides[0]), before.first_of(sides[i]), after.first_of(sides[0]),
                                         after.first_of(sides[i])}));
  return fact;
}

ReplayOften read_replay_often(const Case& one, const Runs& before, const Runs& often) {
  ReplayOften fact;
  for (const RunTrace* run : runs_of(one, before)) {
    const std::string variant = variant_of(run->run);
    if (one.now.unstable && variant != one.now.unstable->variant) continue;
    const std::vector<const RunTrace*> again = often.all_of(variant);
    fact.runs.push_back({.run = run->run, .finished = !again.empty()});
    if (!again.empty()) fact.runs.back().apart = compare::not_alike(one.now.unstable ? *again[0] : *run, again);
    if (!fact.runs.back().apart) continue;
    for (const RunTrace* other : again) {
      const auto apart = compare::part_bitwise(*again[0], *other);
      if (apart && !fact.closeup.element) fact.closeup = closeup_of_runs(*apart, *again[0], *other);
    }
    break;
  }
  return fact;
}

ReplayTwice read_replay_twice(const Case& one, const Runs& twice) {
  const std::string variant = one.now.unstable ? one.now.unstable->variant : variant_of(one.at().left.run);
  const Side first = twice.side(variant + "/0", one.at().rank), second = twice.side(variant + "/1", one.at().rank);
  ReplayTwice fact{.run = {.run = variant + "/0", .finished = first.run != nullptr && second.run != nullptr}};
  if (!fact.run.finished) return fact;
  fact.run.apart = compare::part_bitwise(*first.run, *second.run);
  if (fact.run.apart) fact.closeup = closeup_of_runs(*fact.run.apart, *first.run, *second.run);
  return fact;
}

ReplayThere read_replay_there(const Case& one, const Runs& there) {
  return {.closeup = closeup_in(one, there, Looked::kBehindRounding)};
}

std::vector<Filled> read_fill(const Case& one, const std::vector<Runs>& trials) {
  std::vector<Filled> facts;
  for (const std::string& variant : variants_worth_trying(one)) {
    Filled fact{.variant = variant};
    std::array<std::vector<const RunTrace*>, 2> runs;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const std::vector<const RunTrace*> all = trials[i].all_of(variant);
      fact.finished = fact.finished && !all.empty();
      runs[i % 2].insert(runs[i % 2].end(), all.begin(), all.end());
    }
    fact.moved = compare::decided_by(runs[0], runs[1]);
    for (const std::vector<const RunTrace*>& alike : runs) {
      if (!alike.empty() && !fact.unlike) fact.unlike = compare::not_alike(*alike[0], alike);
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

}  // namespace lockstep::experiment
