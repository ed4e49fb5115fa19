#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/verdict.h"

/// How much longer a step of one training takes than a step of another, and whether that is too long. Pure.
namespace lockstep::app {

/// A long run makes so many times the updates of a short one.
inline constexpr std::int64_t kLongRun = 3;

/// Fewer valid rounds decide nothing: their quartiles are near each other by luck.
inline constexpr std::size_t kLeastRounds = 3;

/// Seconds of a step, without those of the start: a short run of `steps` updates, and a long one.
double step_s(double short_run_s, double long_run_s, std::int64_t steps);

/// Seconds of a step of both trainings, measured in turns.
struct CostRound {
  double variant_s = 0;
  double against_s = 0;

  /// A time of nothing or less was lost in what runs vary by.
  bool is_valid() const { return variant_s > 0 && against_s > 0; }
  double ratio() const { return variant_s / against_s; }
};

struct Quartiles {
  double lower = 0;
  double median = 0;
  double upper = 0;

  bool operator==(const Quartiles&) const = default;
};

/// Quartiles of one value or more, linear between two neighbours.
/// *Source*: Hyndman and Fan 1996, definition 7, the default of numpy.quantile.
Quartiles quartiles_of(std::vector<double> values);

/// Result of all rounds.
struct Cost {
  judge::Status status = judge::Status::kAgree;
  std::size_t valid = 0;  ///< number of valid rounds
  /// Over the valid rounds; nothing: there is none.
  std::optional<Quartiles> variant_s, against_s, ratio;
  std::string why;   ///< the decision in words
  std::string next;  ///< what to do about it; empty: nothing
};

/// `at_most`: the largest ratio that is allowed; nothing: any. It holds where three rounds in four keep it, and is
/// broken where three in four break it.
Cost cost_of(const std::vector<CostRound>& rounds, std::optional<double> at_most);

}  // namespace lockstep::app
