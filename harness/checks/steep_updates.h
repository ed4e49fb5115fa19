#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/checks/check.h"
#include "harness/compare/rounding.h"
#include "harness/laws/updated.h"

namespace lockstep::checks {

/// Updates that divide by a root of the gradient's own square: Adam's and its kin's.
///
/// Where an element of the gradient is no larger than its rounding, the quotient's sign and size are rounding, too.
/// Some elements always are: the bias of a softmax's keys has no gradient but rounding. No bound on the rounding of
/// gradients bounds such a weight. Its difference is explained where all of this holds:
/// - the gradients of both sides differ, and their bound explains that;
/// - both sides update with the same optimizer, hyperparameters and rate;
/// - the laws `state` and `update` hold on both sides: at the sampled elements, each does as its formula says.
///
/// States and averages that follow from such a weight are explained by their own laws. *Lifetime*: of both runs.
class SteepUpdates {
 public:
  SteepUpdates(const trace::RunTrace& left, const trace::RunTrace& right, const CheckInput& input);

  /// Whether this explains a difference of one name that the bound does not. Steps must come in order. Never one that
  /// is not finite.
  bool explain(const compare::RoundingBound& bound, const trace::Record& left, const trace::Record& right,
               std::int64_t step);

  /// Whether a record is a weight that was explained before, or follows from one: no bound holds for it.
  bool left_out(const trace::Record& record) const;

  /// Says which weights were explained, and so not compared; empty: none.
  std::string says() const;

 private:
  struct Update {
    recipe::OptimizerKind kind = recipe::OptimizerKind::kUnknown;
    Json options;
    double rate = 0;
    const trace::Record* gradient = nullptr;
  };
  struct Side {
    bool updates_hold = false, states_hold = false, averages_hold = false;
    std::map<std::pair<std::int64_t, std::string>, Update> updates = {};
  };

  static Side side_of(const trace::RunTrace& run, const CheckInput& input);
  bool is_steep(const compare::RoundingBound& bound, const std::string& weight, std::int64_t step) const;

  const trace::RunTrace &left_run_, &right_run_;
  const CheckInput& input_;
  std::optional<Side> left_, right_;  ///< once they are asked for
  std::set<std::string> explained_;
};

}  // namespace lockstep::checks
