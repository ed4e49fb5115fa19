// Optimizers that compute another update than their paper, or hold other parameters, on every rank alike.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/recipe/optimizer_rule.h"
#include "harness/train/fault/lasting.h"

namespace lockstep::train {
namespace {

/// A fault of the update of some parameters.
class UpdateFault : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;

  bool update(const ParameterUpdate& one, const UpdateRule& rule) override {
    if (!includes(one.name)) return false;
    at::Tensor parameter = one.parameter;
    act(one, rule, parameter);
    return true;
  }

 protected:
  static void apply(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) {
    rule.update(parameter, one.gradient, one.state, one.learning_rate);
  }
  static double number(const ParameterUpdate& one, const char* option, double missing = 0) {
    return one.options.value(option, missing);
  }

 private:
  virtual void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) = 0;
};

class UpdateRepeated : public UpdateFault {
 public:
  explicit UpdateRepeated(const Json& options) : UpdateFault(options), times_(options.at("times").get<int>()) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    for (int i = 0; i < times_; ++i) apply(one, rule, parameter);
  }

  int times_;
};

class ParameterNotHeld : public UpdateFault {
 public:
  using UpdateFault::UpdateFault;

 private:
  void act(const ParameterUpdate&, const UpdateRule&, at::Tensor&) override {}
};

/// The rate of the update alone: schedule and ledger hold the right one.
class UpdateRateWrong : public UpdateFault {
 public:
  explicit UpdateRateWrong(const Json& options) : UpdateFault(options), factor_(options.at("factor").get<double>()) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    rule.update(parameter, one.gradient, one.state, one.learning_rate * factor_);
  }

  double factor_;
};

class UpdateStateRounded : public UpdateFault {
 public:
  explicit UpdateStateRounded(const Json& options)
      : UpdateFault(options), dtype_(half_type(options)), state_(options.at("state").get<std::string>()) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    apply(one, rule, parameter);
    for (const NamedTensor& state : one.state.all()) {
      const bool chosen = state_.empty() || state_ == state.name;
      if (chosen && state.tensor.dim() > 0) at::Tensor(state.tensor).copy_(state.tensor.to(dtype_));
    }
  }

  at::ScalarType dtype_;
  std::string state_;
};

/// The correction counts another number of updates than the state does.
class BiasCorrectionWrong : public UpdateFault {
 public:
  using Mistake = recipe::BiasCorrectionWrongMistake;

  explicit BiasCorrectionWrong(const Json& options)
      : UpdateFault(options), ahead_(recipe::kind_at<Mistake>(options, "mistake") == Mistake::kAhead ? 1 : kForever) {}

 private:
  static constexpr double kForever = 1e6;  // by then every correction is 1

  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    at::Tensor& step = one.state["step"];
    if (!step.defined()) step = at::zeros({}, at::kFloat);
    const at::Tensor after = step + 1;
    step.add_(ahead_);
    apply(one, rule, parameter);
    one.state["step"].copy_(after);
  }

  double ahead_;
};

/// The same rule with another value of one hyperparameter.
class HyperparameterWrong : public UpdateFault {
 public:
  explicit HyperparameterWrong(const Json& options)
      : UpdateFault(options),
        option_(options.at("option").get<std::string>()),
        value_(options.at("value").get<double>()) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule&, at::Tensor& parameter) override {
    Json changed = one.options;
    if (!changed.contains(option_))
      throw InputError({.what = "a fault changes a hyperparameter that the optimizer does not have",
                        .where = "train.faults",
                        .expected = "an option of " + text_of(one.kind),
                        .actual = option_});
    Json& value = changed[option_];
    if (value.is_array()) {
      std::reverse(value.begin(), value.end());
    } else if (value.is_boolean()) {
      value = value_ != 0;
    } else {
      value = value_;
    }
    apply(one, *make_update_rule(one.kind, changed), parameter);
  }

  std::string option_;
  double value_;
};

/// Weight decay in another place, or of another size, than the recipe's optimizer has it.
class DecayWrong : public UpdateFault {
 public:
  using Mistake = recipe::DecayWrongMistake;

  explicit DecayWrong(const Json& options)
      : UpdateFault(options), mistake_(recipe::kind_at<Mistake>(options, "mistake")) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    const double decay = number(one, "weight_decay"), decoupled = 1 - one.learning_rate * decay;
    Json options = one.options;
    options["weight_decay"] = mistake_ == Mistake::kNegated ? -decay : 0.0;
    const std::unique_ptr<UpdateRule> other = make_update_rule(one.kind, options);
    if (mistake_ == Mistake::kBeforeUpdate) parameter.mul_(decoupled);
    const at::Tensor gradient = mistake_ == Mistake::kInGradient ? one.gradient.add(parameter, decay) : one.gradient;
    const UpdateRule& chosen = mistake_ == Mistake::kTwice ? rule : *other;
    chosen.update(parameter, gradient, one.state, one.learning_rate);
    if (mistake_ == Mistake::kAfterUpdate || mistake_ == Mistake::kTwice) parameter.mul_(decoupled);
    if (mistake_ == Mistake::kWithoutRate) parameter.mul_(1 - decay);
  }

  Mistake mistake_;
};

/// The optimizer's own state, and another formula that makes an update of it.
class FormulaWrong : public UpdateFault {
 public:
  using Formula = recipe::FormulaWrongFormula;

  explicit FormulaWrong(const Json& options)
      : UpdateFault(options), formula_(recipe::kind_at<Formula>(options, "formula")) {}

 private:
  void act(const ParameterUpdate& one, const UpdateRule& rule, at::Tensor& parameter) override {
    require_for(one.kind);
    const at::Tensor before = parameter.clone();
    apply(one, rule, parameter);
    parameter.copy_(before);
    const bool decouples = one.kind == recipe::OptimizerKind::kAdamw;
    if (decouples) parameter.mul_(1 - one.learning_rate * number(one, "weight_decay"));
    const at::Tensor gradient = decouples ? one.gradient : one.gradient.add(before, number(one, "weight_decay"));
    parameter.sub_(direction(one, gradient, before), one.learning_rate);
  }

  void require_for(recipe::OptimizerKind kind) const {
    if (recipe::traits_of(kind).planted_formulas.contains(formula_)) return;
    throw InputError({.what = "a fault changes a formula that the optimizer does not have",
                      .where = "train.faults",
                      .expected = "an optimizer with " + text_of(formula_),
                      .actual = text_of(kind)});
  }

  at::Tensor direction(const ParameterUpdate& one, const at::Tensor& gradient, const at::Tensor& weight) const {
    if (one.kind == recipe::OptimizerKind::kSgd) return of_momentum(one, gradient);
    if (one.kind == recipe::OptimizerKind::kAdamax) return gradient / one.state["exp_inf"];  // not_averaged
    if (one.kind == recipe::OptimizerKind::kRmsprop) return gradient / root(one, one.state["square_avg"]);
    const at::Tensor first = formula_ == Formula::kNotAveraged ? gradient : corrected(one, 0, one.state["exp_avg"]);
    at::Tensor step = formula_ == Formula::kEpsBeforeCorrection
                          ? first / corrected(one, 1, root(one, one.state["exp_avg_sq"]).square()).sqrt()
                          : first / root(one, corrected(one, 1, one.state["exp_avg_sq"]));
    if (one.kind != recipe::OptimizerKind::kLamb) return step;
    step = step.add(weight, number(one, "weight_decay"));
    const double trust = (weight.norm() / step.norm()).item<double>();
    if (formula_ == Formula::kTrustLeftOut) return step;
    return step * (formula_ == Formula::kTrustInverted ? 1 / trust : trust);
  }

  at::Tensor of_momentum(const ParameterUpdate& one, const at::Tensor& gradient) const {
    const at::Tensor buffer = one.state["momentum_buffer"];
    if (!buffer.defined()) return gradient;
    if (formula_ == Formula::kMomentumTwice) return gradient + buffer;
    return formula_ == Formula::kMomentumUnused ? gradient : buffer;
  }

  /// Divided by 1 − β^step.
  static at::Tensor corrected(const ParameterUpdate& one, std::size_t beta, const at::Tensor& average) {
    const double steps = one.state["step"].item<double>();
    return average / (1 - std::pow(one.options.at("betas")[beta].get<double>(), steps));
  }

  at::Tensor root(const ParameterUpdate& one, const at::Tensor& square) const {
    const double eps = number(one, "eps");
    if (formula_ == Formula::kEpsInsideRoot) return (square + eps).sqrt();
    return formula_ == Formula::kNoRoot ? square + eps : square.sqrt() + eps;
  }

  Formula formula_;
};

}  // namespace

LOCKSTEP_FAULT(update_repeated, UpdateRepeated, options)
LOCKSTEP_FAULT(parameter_not_held, ParameterNotHeld, options)
LOCKSTEP_FAULT(update_rate_wrong, UpdateRateWrong, options)
LOCKSTEP_FAULT(state_rounded, UpdateStateRounded, options)
LOCKSTEP_FAULT(bias_correction_wrong, BiasCorrectionWrong, options)
LOCKSTEP_FAULT(hyperparameter_wrong, HyperparameterWrong, options)
LOCKSTEP_FAULT(decay_wrong, DecayWrong, options)
LOCKSTEP_FAULT(formula_wrong, FormulaWrong, options)

}  // namespace lockstep::train
