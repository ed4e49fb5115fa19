#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/base/json.h"
#include "harness/laws/rounded.h"

/// The update of one element, for optimizers that are not linear: sampled elements prove it.
namespace lockstep::laws {

/// Known mistakes in a formula. The default: none.
struct Mistake {
  int steps_ahead = 0;         ///< the bias correction counts other updates
  bool no_correction = false;  ///< no bias correction
  bool eps_inside = false;     ///< the root is taken of square + eps
  double rate_factor = 1;      ///< of another rate
};

/// An element before and after an update. *Units*: `unit` is the unit roundoff of its tensors.
struct Element {
  double gradient = 0, weight = 0;
  double step = 0;                              ///< updates done, with this one
  std::map<std::string, double> before, after;  ///< states by name; none before the first update: zero
  double unit = 0;

  bool has(const std::string& state) const { return after.contains(state); }
};

/// One optimizer's formula with the hyperparameters of one group.
class ElementRule {
 public:
  /// `options`: as torch.optim names them. *Throws*: Json::exception for options that are no numbers.
  ElementRule(std::string kind, const Json& options, double rate);

  /// Whether the formula of this kind is known.
  static bool knows(const std::string& kind);

  /// The states that an update makes of those before: {"exp_avg_sq", …}.
  std::map<std::string, Rounded> states(const Element& element) const;

  /// The weight that it makes of the states after it. Of LAMB without its trust ratio.
  std::optional<Rounded> weight(const Element& element, const Mistake& mistake = {}) const;

  /// The direction of LAMB, of which the update is a multiple.
  std::optional<Rounded> direction(const Element& element) const;

  double rate() const { return rate_; }
  double decoupled_decay() const { return decoupled_ ? decay_ : 0; }

 private:
  Rounded gradient_of(const Element& element) const;
  std::optional<Rounded> root_of(const Element& element, const Mistake& mistake) const;

  std::string kind_;
  double rate_, beta1_, beta2_, eps_, decay_, alpha_, momentum_, rate_decay_;
  bool decoupled_, amsgrad_, centered_, maximize_, capturable_;
};

}  // namespace lockstep::laws
