#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "harness/recipe/train_spec.h"

#include "tests/support/tiny/network.h"
#include "tests/support/tiny/planted.h"

namespace lockstep::test {

/// The update of one parameter, as torch.optim has it, with the mistakes that are planted in it.
template <typename Real>
class UpdateRule {
 public:
  UpdateRule(const recipe::OptimizerChoice& optimizer, const Planted& planted, std::int64_t step, std::int64_t rank)
      : kind_(optimizer.kind), options_(optimizer.options) {
    if (const Json* const wrong = planted.find("hyperparameter_wrong", step, rank))
      options_[wrong->at("option").get<std::string>()] = wrong->at("value");
    if (const Json* const wrong = planted.find("update_rate_wrong", step, rank)) factor_ = wrong->at("factor");
    without_rate_ = planted.find("decay_wrong", step, rank) != nullptr;
    without_root_ = planted.find("formula_wrong", step, rank) != nullptr;
    rounds_state_ = planted.find("state_rounded", step, rank) != nullptr;
  }

  void update(const std::string& name, std::vector<Real>& weights, std::vector<Real> gradient, Tensors<Real>& state,
              double rate, std::int64_t steps) const {
    const Real decay = option("weight_decay"), lr = static_cast<Real>(rate * factor_);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (kind_ == recipe::OptimizerKind::kAdamw) {
        weights[i] *= 1 - lr * decay;
      } else {
        gradient[i] += decay * weights[i] / (without_rate_ ? lr : 1);
      }
    }
    if (kind_ == recipe::OptimizerKind::kSgd) return sgd(name, weights, gradient, state, lr);
    kind_ == recipe::OptimizerKind::kRmsprop ? rmsprop(name, weights, gradient, state, lr)
                                             : adam(name, weights, gradient, state, lr, steps);
  }

 private:
  Real option(const char* key) const { return static_cast<Real>(options_.value(key, 0.0)); }

  std::vector<Real>& state_of(Tensors<Real>& state, const std::string& key, std::size_t size) const {
    std::vector<Real>& values = state[key];
    values.resize(size);
    return values;
  }

  void sgd(const std::string& name, std::vector<Real>& weights, const std::vector<Real>& gradient, Tensors<Real>& state,
           Real lr) const {
    const Real momentum = option("momentum");
    if (momentum == 0) {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * gradient[i];
      return;
    }
    std::vector<Real>& buffer = state_of(state, name + ".momentum_buffer", weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      buffer[i] = buffer[i] * momentum + gradient[i];
      weights[i] -= lr * buffer[i];
    }
  }

  void rmsprop(const std::string& name, std::vector<Real>& weights, const std::vector<Real>& gradient,
               Tensors<Real>& state, Real lr) const {
    const Real alpha = option("alpha");
    std::vector<Real>& square = state_of(state, name + ".square_avg", weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      square[i] = alpha * square[i] + (1 - alpha) * gradient[i] * gradient[i];
      weights[i] -= lr * gradient[i] / (std::sqrt(square[i]) + option("eps"));
    }
  }

  void adam(const std::string& name, std::vector<Real>& weights, const std::vector<Real>& gradient,
            Tensors<Real>& state, Real lr, std::int64_t steps) const {
    const auto beta = [&](int i) { return options_.at("betas").at(static_cast<std::size_t>(i)).get<double>(); };
    const auto first = static_cast<Real>(beta(0)), second = static_cast<Real>(beta(1));
    const auto of_mean = static_cast<Real>(1 - std::pow(beta(0), steps)),
               of_square = static_cast<Real>(std::sqrt(1 - std::pow(beta(1), steps)));
    std::vector<Real>& mean = state_of(state, name + ".exp_avg", weights.size());
    std::vector<Real>& square = state_of(state, name + ".exp_avg_sq", weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      mean[i] += (1 - first) * (gradient[i] - mean[i]);
      square[i] = second * square[i] + (1 - second) * gradient[i] * gradient[i];
      if (rounds_state_) square[i] = to_float16(static_cast<float>(square[i]));
      const Real root = without_root_ ? square[i] : std::sqrt(square[i]) / of_square;
      weights[i] -= lr / of_mean * (mean[i] / (root + option("eps")));
    }
  }

  const recipe::OptimizerKind kind_;
  Json options_;
  double factor_ = 1;
  bool without_rate_ = false, without_root_ = false, rounds_state_ = false;
};

}  // namespace lockstep::test
