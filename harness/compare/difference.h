#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/detour.h"
#include "harness/compare/element.h"
#include "harness/compare/operators.h"
#include "harness/compare/suspect.h"
#include "harness/laws/finite.h"
#include "harness/scenario/class.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// Something regular about where and how two runs differ: a hint for people, and never a verdict.
struct Pattern {
  std::string id;    ///< "one_rank"
  std::string text;  ///< "on rank 1 only, of 4"
};

/// How the runs of a finding came out when they were run again.
enum class Again { kNotTried, kSame, kOnceOtherwise, kEachTimeOtherwise };

/// Where two things part first, in (step, channel, tensor, rank) order. A value: presenters only render it.
struct Divergence {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::int64_t rank = 0;  ///< on the right side
  std::string phase;      ///< of the step, where no record differs but a rank ends: "forward"; no channel then
  std::string left;       ///< what it was held against: "w1/0", "golden", "rank 0"
  std::string right;
  std::string expected;  ///< of the left side, as far as it can be shown
  std::string actual;    ///< of the right side
  std::string relation;  ///< how the two relate: "right = 4 x left", "differs by 3e-3 of its norm"
  std::optional<scenario::Class> class_;
  std::string cause;              ///< what was seen, and where to look, in words
  std::string unless_rounding;    ///< the same, where `cause` says that rounding explains it, or may
  std::vector<Suspect> suspects;  ///< causes by name, the likeliest first; empty: unknown
  std::vector<Pattern> patterns;
  Again again = Again::kNotTried;
  bool is_no_rounding = false;               ///< control runs have shown that no order of additions explains it
  bool behind_rounding = false;              ///< the runs part before it, by rounding
  std::optional<Element> element;            ///< where the elements were captured
  std::optional<OperatorFinding> operator_;  ///< where the operators were
  std::optional<Detour> detour;              ///< of a reduced gradient whose addends were captured, too

  /// Id of the likeliest cause; "unknown".
  std::string cause_id() const { return suspects.empty() ? "unknown" : suspects[0].cause; }

  /// "rounding", "semantic", …; empty where it has no class.
  std::string_view class_name() const { return class_ ? name_of(*class_) : std::string_view(); }

  /// Its channel's name; empty where a phase is the place.
  std::string_view channel_name() const { return phase.empty() ? trace::name_of(channel) : std::string_view(); }

  /// "step 3, gradient conv1.weight", or "step 3, in forward", without the rank.
  std::string place() const;
  std::string place_and_rank() const;

  /// Says that rounding explains it, or may.
  void call_rounding(scenario::Class as, std::string why);
  /// Takes that back: a mistake explains it.
  void deny_rounding();
};

/// Two traces whose records are compared, rank by rank.
struct Pair {
  const trace::Trace* left = nullptr;
  const trace::Trace* right = nullptr;
  std::int64_t rank = 0;  ///< to report
};

/// Which pairs of ranks a channel is compared on.
using PairsOf = std::function<std::vector<Pair>(trace::Channel)>;

/// A relation that two records of one name must satisfy; it returns the difference in words if they do not.
using Relation = std::function<std::optional<std::string>(const trace::Record& left, const trace::Record& right,
                                                          std::int64_t step, std::int64_t rank)>;

/// What to walk over.
struct Walk {
  PairsOf pairs;
  std::vector<trace::Channel> channels;
  Relation relation;
  std::int64_t first_step = trace::kInitialStep;  ///< steps before are left out
  bool common_steps_only = false;                 ///< a step that one side lacks is left out, too
  /// Records to leave out; empty: none.
  std::function<bool(trace::Channel, const std::string& name, std::int64_t step)> skip;
  std::string left_name;
  std::string right_name;
};

/// Result of a walk: `compared` tells a comparison from an empty one.
struct Comparison {
  std::size_t compared = 0;
  std::set<trace::Channel> channels;  ///< those with at least one record compared
  std::optional<Divergence> first;
  /// The first place where both sides hold NaN or infinity: what agrees there and after it is no agreement.
  std::optional<laws::RecordPlace> hidden;
  std::string sides = {};  ///< "a/0 and b/0"
};

/// Holds both sides against each other, step by step, and stops at the first divergence. A record, channel or step
/// that one side lacks is a divergence; so is another number of records of one name.
Comparison compare(const Walk& walk);

/// Same dtype, shape and digest.
std::optional<std::string> bitwise(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                   std::int64_t rank);

/// "0.25 (0x3e800000…)", ids, text or digest: what a person wants to see of a record.
std::string shown(const trace::Record& record);

/// How two records of one shape relate, from their sketches or norms; empty when nothing can be said.
std::string relation_between(const trace::Record& left, const trace::Record& right);

/// The constant c for which right = c x left, by their numbers or sketches; nothing where there is none but 1.
std::optional<double> factor_between(const trace::Record& left, const trace::Record& right);

/// The other channels that were compared in the step of a divergence.
struct Seen {
  std::set<trace::Channel> equal;    ///< channels of its step with records that are equal bit for bit
  std::set<trace::Channel> unequal;  ///< channels of its step with records that are not, and need not be
  std::int64_t world_size = 1;       ///< of the right side
  std::optional<double> factor = {};
};

/// Fills class and cause of a divergence: what was seen, and nothing that was not.
void explain(Divergence& divergence, const Seen& seen);

}  // namespace lockstep::compare
