#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/laws/rounded.h"

/// The update of one element, for optimizers that are not linear: sampled elements prove it.
namespace lockstep::laws {

/// Known mistakes in a formula. The default: none.
struct Mistake {
  int steps_ahead = 0;             ///< the bias correction counts other updates
  bool no_correction = false;      ///< no bias correction
  bool eps_inside = false;         ///< the root is taken of square + eps
  double rate_factor = 1;          ///< of another rate
  double decay_factor = 1;         ///< of another decay
  std::optional<double> eps = {};  ///< another one
};

/// Numbers by the name of an optimizer's state: few, so that a list is faster than a map. *Lifetime*: names are
/// literals.
template <typename Number>
class States {
 public:
  /// *Throws*: InternalError beyond kMostStates.
  void set(std::string_view state, const Number& number) {
    LOCKSTEP_CHECK(count_ < kMostStates);
    all_[count_++] = {state, number};
  }

  /// Null if there is none.
  const Number* find(std::string_view state) const {
    const auto found = std::find_if(begin(), end(), [&](const auto& one) { return one.first == state; });
    return found == end() ? nullptr : &found->second;
  }

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.begin() + static_cast<std::ptrdiff_t>(count_); }

 private:
  static constexpr std::size_t kMostStates = 9;

  std::array<std::pair<std::string_view, Number>, kMostStates> all_{};
  std::size_t count_ = 0;
};

/// An element before and after an update. *Units*: `unit` is the unit roundoff of its tensors.
struct Element {
  double gradient = 0, weight = 0;
  double step = 0;               ///< updates done, with this one
  States<double> before, after;  ///< none before the first update: zero
  double unit = 0;

  bool has(std::string_view state) const { return after.find(state) != nullptr; }
};

/// One optimizer's formula with the hyperparameters of one group.
class ElementRule {
 public:
  /// `options`: as torch.optim names them. *Throws*: Json::exception for options that are no numbers.
  ElementRule(std::string kind, const Json& options, double rate);

  /// Whether the formula of this kind is known.
  static bool knows(const std::string& kind);

  /// The states that an update makes of those before: {"exp_avg_sq", …}.
  States<Rounded> states(const Element& element) const;

  /// The weight that it makes of the states after it. Of LAMB without its trust ratio.
  std::optional<Rounded> weight(const Element& element, const Mistake& mistake = {}) const;

  /// The direction of LAMB, of which the update is a multiple.
  std::optional<Rounded> direction(const Element& element, const Mistake& mistake = {}) const;

  double rate() const { return rate_; }
  double eps() const { return eps_; }
  double decoupled_decay() const { return decoupled_ ? decay_ : 0; }

 private:
  Rounded gradient_of(const Element& element) const;
  std::optional<Rounded> root_of(const Element& element, const Mistake& mistake) const;

  std::string kind_;
  double rate_, beta1_, beta2_, eps_, decay_, alpha_, momentum_, rate_decay_;
  bool decoupled_, amsgrad_, centered_, maximize_, capturable_;
};

}  // namespace lockstep::laws
