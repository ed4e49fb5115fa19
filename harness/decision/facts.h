#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/checks/check.h"
#include "harness/compare/ladder.h"

/// Facts of a finding. A trial adds one, and it never changes afterwards. The decision (`decision.h`) reads facts
/// alone.
namespace lockstep::decision {

using compare::Divergence;

/// A run, and the same run made again.
struct Repeated {
  std::string run;  ///< "w3/0"
  bool finished = true;
  std::optional<Divergence> apart = {};  ///< first difference of the two; nothing: the same bits
};

/// A difference, seen closely by captures.
struct Closeup {
  std::optional<compare::Element> element = {};
  std::optional<compare::OperatorFinding> operator_ = {};
  std::optional<compare::Detour> detour = {};
  bool is_no_rounding = false;  ///< no order of additions makes these elements
};

/// Both sides again, with nothing changed.
struct Replay {
  std::vector<Repeated> runs;
  Closeup closeup = {};
};

/// The finding with the causes that the evidence leaves.
struct Diagnosis {
  Divergence at;
};

/// Two trainings in float32 and in float64.
struct InFloat64 {
  std::string silent = {};  ///< why float64 proves nothing; empty: it does
  bool is_finite = true;    ///< both trainings, in both precisions; if not, what comes before is judged
  bool in_16_bits = false, same_shape = true;
  std::optional<compare::Ladder> rungs = {};   ///< at the place of the finding
  bool is_small = false;                       ///< the finding is no larger than one sample's effect
  compare::Comparison judged = {};             ///< first difference in float64 that is more than rounding
  std::optional<std::int64_t> horizon = {};    ///< step from which float64 proves nothing
  std::optional<Divergence> mistake = {};      ///< first difference that stays in float64, unless rounding grew into it
  std::optional<Divergence> beyond = {};       ///< first that shrinks, but is larger than any rounding
  std::optional<Divergence> ranks_apart = {};  ///< first difference between the ranks of one run
};

struct Float64 {
  std::optional<InFloat64> at_finding;  ///< its two sides
  std::vector<InFloat64> pairs;         ///< of a check up to rounding: the first side and each other one
};

/// A side whose steps start from the state of the check's first side.
struct Steps {
  enum class Show {
    kUnfinished,
    kNotFinite,
    kIn16Bits,         ///< one step rounds as far as a mistake is large
    kSameWeights,      ///< there are no other weights to try
    kDifferInFloat64,  ///< at `compared.first`
    kUpdateDiffers,    ///< in float32, from gradients that are equal bit for bit
    kDifferInFloat32,
    kAgree,
  };
  std::string side;
  Show shows = Show::kAgree;
  compare::Comparison compared = {};
  Closeup closeup = {};
};

struct OneState {
  std::vector<Steps> sides;
};
struct AnotherState {
  std::vector<Steps> sides;
  bool has_kinks = true;        ///< the model has a ReLU
  bool leader_repeats = false;  ///< the first side came out in its runs from one state as at first
};
struct OneStateThere {
  Closeup closeup;
  std::vector<Repeated> runs;
};

struct ReplayOften {
  std::vector<Repeated> runs;  ///< up to the first that differs
  Closeup closeup = {};        ///< of that one
};
struct ReplayTwice {
  Repeated run;  ///< two more runs of one side
  Closeup closeup = {};
};
struct ReplayThere {
  Closeup closeup = {};
};

/// A variant under two patterns of fresh memory.
struct Filled {
  std::string variant;
  bool finished = true;
  std::optional<Divergence> moved = {};   ///< first difference between the patterns, if each of them reproduces
  std::optional<Divergence> unlike = {};  ///< first difference between runs with one pattern
};

struct Fill {
  std::vector<Filled> variants;
};
struct FillAgain {
  std::vector<Filled> variants;
};

/// Control runs, in the order in which they are tried.
enum class Trial {
  kReplay,
  kDiagnosis,  ///< no run: what is known is looked up again
  kFloat64,
  kOneState,
  kAnotherState,
  kOneStateThere,
  kReplayOften,
  kReplayTwice,
  kReplayThere,
  kFill,
  kFillAgain,
};

/// No such training exists.
struct Impossible {
  Trial trial;
  std::string why;
};

/// The trial ended without a result for anybody.
struct Broken {
  std::string why;
};

using Fact = std::variant<Replay, Diagnosis, Float64, OneState, AnotherState, OneStateThere, ReplayOften, ReplayTwice,
                          ReplayThere, Fill, FillAgain, Impossible, Broken>;

}  // namespace lockstep::decision
