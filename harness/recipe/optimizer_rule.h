#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/recipe/kinds.h"
#include "harness/recipe/rounded.h"

/// An optimizer's rule as the laws, audits and planted mistakes know it. train/ has an arithmetic of its own, so that
/// one can prove the other.
namespace lockstep::recipe {

/// How an update can be proven.
enum class UpdateForm {
  kUnknown,     ///< no formula is known
  kLinear,      ///< by sketches: linear in gradient, weight and state
  kElements,    ///< by sampled elements
  kTrustRatio,  ///< by sampled elements up to one factor for each parameter
};

/// A state that an optimizer keeps of each parameter.
struct KeptState {
  std::string_view name;
  const char* option = nullptr;  ///< that asks for it; null: always kept
};

/// Properties of an optimizer's kind.
struct OptimizerTraits {
  UpdateForm form = UpdateForm::kUnknown;
  bool is_scale_free = false;    ///< a constant factor on all gradients cancels, but for eps
  bool decouples_decay = false;  ///< weight decay is never a part of the gradient
  std::vector<KeptState> states = {};
  std::string_view square = {};       ///< state that is a moving average of squares or sizes
  const char* square_keep = nullptr;  ///< its share of the state before, as a pointer into the options: "/betas/1"
  bool corrects_square = false;       ///< an update divides it by 1 - keep^step
  std::set<FormulaWrongFormula> planted_formulas = {};  ///< that the fault formula_wrong has for it
};

/// *Source*: torch.optim.SGD, Adam, AdamW, Adamax, RMSprop and Adagrad, PyTorch 2.11; LAMB: You et al. 2020,
/// algorithm 2.
const OptimizerTraits& traits_of(OptimizerKind kind);

/// The states that are kept with these options.
std::vector<KeptState> kept_states(OptimizerKind kind, const Json& options);

/// Whether weight decay is a part of the gradient.
bool couples_decay(OptimizerKind kind, const Json& options);

/// A state that is a sum of itself before and the gradient: keep · state + take · gradient.
struct MovingAverage {
  std::string_view state;
  double keep = 0, take = 1;
  double take_first = 1;  ///< instead of `take`, in the first update
};

/// Nothing where no such state is kept.
std::optional<MovingAverage> average_of(OptimizerKind kind, const Json& options);

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
  ElementRule(OptimizerKind kind, const Json& options, double rate);

  /// The states that an update makes of those before: {"exp_avg_sq", …}.
  States<Rounded> states(const Element& element) const;

  /// The weight that it makes of the states after it. For LAMB, without its trust ratio.
  std::optional<Rounded> weight(const Element& element, const Mistake& mistake = {}) const;

  /// LAMB's direction: the update is a multiple of it.
  std::optional<Rounded> direction(const Element& element, const Mistake& mistake = {}) const;

  double rate() const { return rate_; }
  double eps() const { return eps_; }
  double decoupled_decay() const { return decoupled_ ? decay_ : 0; }

 private:
  Rounded gradient_of(const Element& element) const;
  std::optional<Rounded> root_of(const Element& element, const Mistake& mistake) const;

  OptimizerKind kind_;
  double rate_, beta1_, beta2_, eps_, decay_, alpha_, momentum_, rate_decay_;
  bool decoupled_, amsgrad_, centered_, maximize_, capturable_;
};

}  // namespace lockstep::recipe
