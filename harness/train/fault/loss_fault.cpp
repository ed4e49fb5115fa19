// Losses with another criterion than the recipe's, and printed losses that are no mean over the ranks.
#include <limits>

#include <ATen/ATen.h>

#include "harness/train/data/data.h"
#include "harness/train/fault/lasting.h"
#include "harness/train/fault/parameters.h"
#include "harness/train/loop/loss.h"

namespace lockstep::train {
namespace {

class LossWrong : public LastingFault {
 public:
  explicit LossWrong(const Json& options)
      : mistake_(options.at("mistake").get<std::string>()), amount_(options.at("amount").get<double>()) {}

  at::Tensor criterion(const at::Tensor& logits, const at::Tensor& labels, bool summed) override {
    const at::Tensor flat = logits.flatten(0, -2), targets = labels.flatten();
    const auto reduction = summed ? at::Reduction::Sum : at::Reduction::Mean;
    if (mistake_ == "smoothed") return at::cross_entropy_loss(flat, targets, {}, reduction, kNoLabel, amount_);
    if (mistake_ == "weighted") {
      at::Tensor weights = at::ones({flat.size(-1)}, flat.options().requires_grad(false));
      weights[0].fill_(amount_);
      return at::cross_entropy_loss(flat, targets, weights, reduction, kNoLabel);
    }
    if (mistake_ == "summed") return summed_loss(logits, labels);
    if (mistake_ == "padding_counted") return summed_loss(logits, labels) / static_cast<double>(targets.numel());
    // "first_left_out": the first sample of the batch is masked.
    return at::cross_entropy_loss(flat.narrow(0, 1, flat.size(0) - 1), targets.narrow(0, 1, flat.size(0) - 1), {},
                                  reduction, kNoLabel);
  }

 private:
  std::string mistake_;
  double amount_;
};

/// What is printed as the mean over the ranks and micro-batches.
class ReportedLossWrong : public LastingFault {
 public:
  explicit ReportedLossWrong(const Json& options) : of_rank_0_(options.at("mistake") == "rank_0") {}

  at::Tensor reported_loss(const at::Tensor& all, const at::Tensor& last, const Collective& collective) override {
    if (!of_rank_0_) return last;
    const int ranks = collective.group()->getSize();  // which the sum is divided by
    return collective.group()->getRank() == 0 ? all * ranks : at::zeros_like(all);
  }

 private:
  bool of_rank_0_;
};

/// Numbers that are not finite, from one step on.
class NotFinite : public LastingFault {
 public:
  explicit NotFinite(const Json& options) : place_(options.at("place").get<std::string>()), parameters_(options) {}

  at::Tensor loss(at::Tensor loss) override { return place_ == "loss" ? loss * kNaN : loss; }
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (place_ == "gradient" && parameters_.include(parameter)) gradient.flatten()[0].fill_(kNaN);
  }
  void updated(const Updated& rank) override {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& weight : rank.weights) {
      if (place_ == "weight" && parameters_.include(weight.name)) weight.tensor.flatten()[0].fill_(kNaN);
    }
  }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  std::string place_;
  ParameterChoice parameters_;
};

}  // namespace

std::unique_ptr<Fault> make_loss_wrong_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<LossWrong>(options);
}
std::unique_ptr<Fault> make_reported_loss_wrong_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<ReportedLossWrong>(options);
}
std::unique_ptr<Fault> make_not_finite_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<NotFinite>(options);
}

}  // namespace lockstep::train
