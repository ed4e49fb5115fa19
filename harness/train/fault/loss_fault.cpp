// Losses with another criterion than the recipe's, and printed losses that are no mean over the ranks.
#include <limits>

#include <ATen/ATen.h>

#include "harness/train/data/data.h"
#include "harness/train/fault/lasting.h"
#include "harness/train/loop/loss.h"

namespace lockstep::train {
namespace {

class LossWrong : public LastingFault {
 public:
  using Mistake = recipe::LossWrongMistake;

  explicit LossWrong(const Json& options)
      : mistake_(recipe::kind_at<Mistake>(options, "mistake")), amount_(options.at("amount").get<double>()) {}

  bool criterion(at::Tensor& loss, const at::Tensor& logits, const at::Tensor& labels, bool summed) override {
    loss = wrong(logits, labels, summed);
    return true;
  }

 private:
  at::Tensor wrong(const at::Tensor& logits, const at::Tensor& labels, bool summed) const {
    const at::Tensor flat = logits.flatten(0, -2), targets = labels.flatten();
    const auto reduction = summed ? at::Reduction::Sum : at::Reduction::Mean;
    if (mistake_ == Mistake::kSmoothed) return at::cross_entropy_loss(flat, targets, {}, reduction, kNoLabel, amount_);
    if (mistake_ == Mistake::kWeighted) {
      at::Tensor weights = at::ones({flat.size(-1)}, flat.options().requires_grad(false));
      weights[0].fill_(amount_);
      return at::cross_entropy_loss(flat, targets, weights, reduction, kNoLabel);
    }
    if (mistake_ == Mistake::kSummed) return summed_loss(logits, labels);
    if (mistake_ == Mistake::kPaddingCounted) return summed_loss(logits, labels) / static_cast<double>(targets.numel());
    // "first_left_out": the first sample of the batch is masked.
    return at::cross_entropy_loss(flat.narrow(0, 1, flat.size(0) - 1), targets.narrow(0, 1, flat.size(0) - 1), {},
                                  reduction, kNoLabel);
  }

  Mistake mistake_;
  double amount_;
};

/// What is printed as the mean over the ranks and micro-batches.
class ReportedLossWrong : public LastingFault {
 public:
  using Mistake = recipe::ReportedLossWrongMistake;

  explicit ReportedLossWrong(const Json& options)
      : of_rank_0_(recipe::kind_at<Mistake>(options, "mistake") == Mistake::kRank0) {}

  at::Tensor reported_loss(const at::Tensor& all, const at::Tensor& last, const Collective& collective) override {
    if (!of_rank_0_) return last;
    const int ranks = collective.group()->getSize();  // which the sum is divided by
    return collective.group()->getRank() == 0 ? all * ranks : at::zeros_like(all);
  }

 private:
  bool of_rank_0_;
};

/// Numbers that are not finite, from one step on.
class NotFinite : public ParameterFault {
 public:
  using Place = recipe::NotFinitePlace;

  explicit NotFinite(const Json& options) : ParameterFault(options), place_(recipe::kind_at<Place>(options, "place")) {}

  at::Tensor loss(at::Tensor loss) override { return place_ == Place::kLoss ? loss * kNaN : loss; }
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (place_ == Place::kGradient && includes(parameter)) gradient.flatten()[0].fill_(kNaN);
  }
  void updated(const Updated& rank) override {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& weight : rank.weights) {
      if (place_ == Place::kWeight && includes(weight.name)) weight.tensor.flatten()[0].fill_(kNaN);
    }
  }

 private:
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  Place place_;
};

}  // namespace

LOCKSTEP_FAULT(loss_wrong, LossWrong, options)
LOCKSTEP_FAULT(reported_loss_wrong, ReportedLossWrong, options)
LOCKSTEP_FAULT(not_finite, NotFinite, options)

}  // namespace lockstep::train
