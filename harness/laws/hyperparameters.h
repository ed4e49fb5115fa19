#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/laws/held.h"
#include "harness/scenario/scenario.h"

namespace lockstep::laws {

/// Optimizer of one parameter, with the hyperparameters of its group.
struct Hyperparameters {
  recipe::OptimizerKind kind = recipe::OptimizerKind::kUnknown;
  std::string name;  ///< of the kind, known or not: "adadelta"
  Json options;
  std::string rate;  ///< its entry of the ledger: "learning_rate.1"
};

/// The optimizer of each parameter of a run: as its recipe says, else as its recorder saw it.
class Optimizers {
 public:
  Optimizers(const trace::RunTrace& run, const scenario::Promises& promises);

  /// Why the update rule of the parameters is unknown; empty: it is known.
  const std::string& unknown() const { return unknown_; }

  /// Takes hyperparameters that a program changed in a step. Steps must come in order.
  void go_to(const Held& now);

  /// Nothing for a parameter that no optimizer was seen to hold.
  const Hyperparameters* of(const std::string& parameter) const;

  /// Whether any keeps a state, as all but SGD without momentum do.
  bool have_state() const;

  /// Name of an optimizer whose formula is not known; empty: all are known.
  std::string without_formula() const;

 private:
  struct Group {
    Hyperparameters holds;
    std::string prefix, suffix;  ///< of its entries in the ledger, where a program has them
  };

  void take_recipe(const scenario::Promises& promises);
  void take_seen(const Json& optimizers, bool scales);

  std::string unknown_;
  std::vector<Group> groups_;
  std::set<std::string> moved_;                                    ///< that a program with a recipe changes as it goes
  std::map<std::string, std::size_t> group_of_;                    ///< of a program's parameters
  std::optional<std::vector<recipe::ParameterGroup>> by_pattern_;  ///< of a recipe
};

}  // namespace lockstep::laws
