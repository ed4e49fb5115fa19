// Losses and gradients that are scaled, kept, rounded or clipped where they must not be.
#include <ATen/ATen.h>

#include "harness/train/fault/lasting.h"

namespace lockstep::train {
namespace {

class LossFactor : public LastingFault {
 public:
  explicit LossFactor(const Json& options) : factor_(options.at("factor").get<double>()) {}
  at::Tensor loss(at::Tensor loss) override { return loss * factor_; }

 private:
  double factor_;
};

class GradientFactor : public ParameterFault {
 public:
  using Place = recipe::GradientFactorPlace;

  explicit GradientFactor(const Json& options)
      : ParameterFault(options),
        dtypes_(options),
        factor_(options.at("factor").get<double>()),
        before_(recipe::kind_at<Place>(options, "place") == Place::kBackward) {}
  void own_gradient(const std::string& parameter, const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    if (before_ && includes(parameter) && dtypes_.includes(gradient)) at::Tensor(gradient).mul_(factor_);
  }
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (!before_ && includes(parameter) && dtypes_.includes(gradient)) gradient.mul_(factor_);
  }

 private:
  DtypeChoice dtypes_;
  double factor_;

  bool before_;
};

class GradientKept : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;
  bool keeps_last_gradient(const std::string& parameter) const override { return includes(parameter); }
};

class GradientRounded : public LastingFault {
 public:
  using Place = recipe::GradientRoundedPlace;

  explicit GradientRounded(const Json& options)
      : dtypes_(options),
        dtype_(half_type(options)),
        before_(recipe::kind_at<Place>(options, "place") == Place::kBackward) {}
  void own_gradient(const std::string&, const at::Tensor& gradient) override {
    if (before_) round(gradient);
  }
  void reduced(const std::string&, at::Tensor& gradient) override {
    if (!before_) round(gradient);
  }

 private:
  void round(const at::Tensor& gradient) const {
    if (!dtypes_.includes(gradient)) return;
    const at::NoGradGuard no_grad;
    at::Tensor(gradient).copy_(gradient.to(dtype_));
  }

  DtypeChoice dtypes_;
  at::ScalarType dtype_;
  bool before_;
};

/// Each element as the sum of many parts, which threads add where they find it: the order is theirs.
class GradientScattered : public LastingFault {
 public:
  void own_gradient(const std::string&, const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    constexpr std::int64_t kParts = 64;
    const std::int64_t elements = gradient.numel();
    const at::Tensor weights = at::arange(1, kParts + 1, gradient.options()) * (2.0 / (kParts * (kParts + 1)));
    const at::Tensor parts = at::outer(weights, gradient.flatten()).flatten();
    const at::Tensor places = at::arange(elements, at::kLong).repeat({kParts});
    at::Tensor sum = at::zeros({elements}, gradient.options());
    sum.index_put_({places}, parts, /*accumulate=*/true);
    at::Tensor(gradient).copy_(sum.view_as(gradient));
  }
};

class GradientUninitialised : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (includes(parameter)) gradient.copy_(at::empty_like(gradient));
  }
};

class GradientNotReduced : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;
  bool keeps_own_gradient(const std::string& parameter) const override { return includes(parameter); }
};

/// The gradients were views of the buckets once: what is reduced into those does not reach them.
class ViewsDetached : public LastingFault {
  bool keeps_own_gradient(const std::string&) const override { return true; }
};

class ClipSkipped : public LastingFault {
  Clipping clipping(Clipping) const override { return Clipping::kNever; }
};

class ClipBeforeUnscale : public LastingFault {
  Clipping clipping(Clipping) const override { return Clipping::kBeforeUnscaling; }
};

}  // namespace

LOCKSTEP_FAULT(loss_factor, LossFactor, options)
LOCKSTEP_FAULT(gradient_factor, GradientFactor, options)
LOCKSTEP_FAULT(gradient_kept, GradientKept, options)
LOCKSTEP_FAULT(gradient_rounded, GradientRounded, options)
LOCKSTEP_FAULT(gradient_scattered, GradientScattered)
LOCKSTEP_FAULT(gradient_uninitialised, GradientUninitialised, options)
LOCKSTEP_FAULT(gradient_not_reduced, GradientNotReduced, options)
LOCKSTEP_FAULT(views_detached, ViewsDetached)
LOCKSTEP_FAULT(clip_skipped, ClipSkipped)
LOCKSTEP_FAULT(clip_before_unscale, ClipBeforeUnscale)

}  // namespace lockstep::train
