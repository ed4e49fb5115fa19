#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/detour.h"
#include "harness/compare/element.h"
#include "harness/compare/operators.h"
#include "harness/compare/party.h"
#include "harness/compare/suspect.h"
#include "harness/laws/finite.h"
#include "harness/scenario/class.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// A regularity in where or how two runs differ. It is a hint for people, never a verdict.
struct Pattern {
  std::string id;    ///< "one_rank"
  std::string text;  ///< "on rank 1 only, of 4"
};

/// First difference of two sides, in (step, channel, tensor, rank) order. Presenters only render it.
struct Divergence {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::int64_t rank = 0;  ///< on the right side
  std::string phase;      ///< where a rank ended although no record differs: "forward"; replaces the channel
  Party left;             ///< the side compared with
  Party right;
  std::string expected;  ///< value of the left side, if it can be shown
  std::string actual;    ///< value of the right side
  std::string relation;  ///< how the two relate: "right = 4 x left", "differs by 3e-3 of its norm"
  std::optional<scenario::Class> class_;
  std::string cause;              ///< in words: what was seen, and where to look
  std::string unless_rounding;    ///< text to use instead if rounding turns out not to explain it
  std::vector<Suspect> suspects;  ///< causes by name, the likeliest first; empty: unknown
  std::vector<Pattern> patterns;
  std::optional<Element> element;            ///< if elements were captured
  std::optional<OperatorFinding> operator_;  ///< if operators were captured
  std::optional<Detour> detour;              ///< for a reduced gradient, if the ranks' own gradients were captured too

  /// Whether one of the sides lacks this.
  bool lacks(Missing what) const { return left.missing == what || right.missing == what; }

  /// Id of the likeliest cause; "unknown" if there is none.
  std::string cause_id() const { return suspects.empty() ? "unknown" : suspects[0].cause; }

  /// "rounding", "semantic", …; empty if it has no class.
  std::string_view class_name() const { return class_ ? name_of(*class_) : std::string_view(); }

  /// Name of its channel; empty if it has a phase instead.
  std::string_view channel_name() const { return phase.empty() ? trace::name_of(channel) : std::string_view(); }

  /// "step 3, gradient conv1.weight", or "step 3, in forward", without the rank.
  std::string place() const;
  std::string place_and_rank() const;

  /// Classifies it as rounding, or as possible rounding.
  void call_rounding(scenario::Class as, std::string why);
  /// Takes that back: rounding does not explain it.
  void deny_rounding();
};

/// Two traces to compare, one of each side.
struct Pair {
  const trace::Trace* left = nullptr;
  const trace::Trace* right = nullptr;
  std::int64_t rank = 0;  ///< rank to report
};

/// Pairs of ranks on which a channel is compared.
using PairsOf = std::function<std::vector<Pair>(trace::Channel)>;

/// A relation that two records of one name must satisfy; it returns the difference in words if they do not.
using Relation = std::function<std::optional<std::string>(const trace::Record& left, const trace::Record& right,
                                                          std::int64_t step, std::int64_t rank)>;

/// The content of one place that a comparison looks at: a record of each side, or the samples of all ranks.
struct Looked {
  laws::RecordPlace at;
  const trace::Record* left = nullptr;   ///< null: the side did not record it
  const trace::Record* right = nullptr;  ///< the same
  std::optional<bool> same = {};         ///< whether the samples of all ranks are the same, where it is these
};

/// Sees all that a comparison looks at. The comparison then goes on behind differences and finds none.
using Watch = std::function<void(const Looked& looked)>;

/// Behind every step.
inline constexpr std::int64_t kNoStep = std::numeric_limits<std::int64_t>::max();

/// Parameters of a comparison.
struct Walk {
  PairsOf pairs;
  std::vector<trace::Channel> channels;
  Relation relation;
  std::int64_t first_step = trace::kInitialStep;  ///< earlier steps are skipped
  std::int64_t end_step = kNoStep;                ///< so are this one and later ones
  bool common_steps_only = false;                 ///< skip steps that one side lacks
  /// Records to skip; empty: none.
  std::function<bool(trace::Channel, const std::string& name, std::int64_t step)> skip;
  std::string left_name;
  std::string right_name;
  Watch watch = {};  ///< for pictures; empty: it compares
};

/// Result of a comparison. `compared` is 0 if there was nothing to compare.
struct Comparison {
  std::size_t compared = 0;
  std::set<trace::Channel> channels;  ///< those with at least one record compared
  std::optional<Divergence> first;
  /// First place where both sides hold NaN or infinity. Agreement there and later proves nothing.
  std::optional<laws::RecordPlace> hidden;
  /// First record that one side lacks because it cannot be read there, or that has no digest on both: it is not known
  /// whether it differs.
  std::optional<laws::RecordPlace> unread = {};
  std::string sides = {};  ///< "a/0 and b/0"
};

/// Compares both sides step by step and stops at the first divergence. A record, channel or step that one side lacks is
/// a divergence. So is a different number of records of one name.
Comparison compare(const Walk& walk);

/// Relation "bitwise equal": same dtype, shape and digest.
std::optional<std::string> bitwise(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                   std::int64_t rank);

/// "0.25 (0x3e800000…)", ids, text or digest: a record for people to read. `by_sum`: the digest that adds up over
/// shards, where there is one.
std::string shown(const trace::Record& record, bool by_sum = false);

/// Relation of two records of one shape, from their sketches or norms; empty if nothing is known.
std::string relation_between(const trace::Record& left, const trace::Record& right);

/// Constant c with right = c x left, from numbers or sketches. Nothing if there is no such c, or if it is 1.
std::optional<double> factor_between(const trace::Record& left, const trace::Record& right);

/// Other channels compared in the step of a divergence.
struct Seen {
  std::set<trace::Channel> equal;    ///< channels whose records are bitwise equal in that step
  std::set<trace::Channel> unequal;  ///< channels whose records differ in that step, as they may
  std::int64_t world_size = 1;       ///< of the right side
  std::optional<double> factor = {};
};

/// Fills in class and cause of a divergence. They claim only what was compared.
void explain(Divergence& divergence, const Seen& seen);

}  // namespace lockstep::compare
