// Losses and gradients that are scaled, kept, rounded or clipped where they must not be.
#include <ATen/ATen.h>

#include "harness/train/fault/lasting.h"
#include "harness/train/fault/parameters.h"

namespace lockstep::train {
namespace {

class LossFactor : public LastingFault {
 public:
  explicit LossFactor(const Json& options) : factor_(options.at("factor").get<double>()) {}
  at::Tensor loss(at::Tensor loss) override { return loss * factor_; }

 private:
  double factor_;
};

class GradientFactor : public LastingFault {
 public:
  explicit GradientFactor(const Json& options)
      : dtypes_(options),
        factor_(options.at("factor").get<double>()),
        parameters_(options),
        before_(options.at("place") == "backward") {}
  void own_gradient(const std::string& parameter, const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    if (before_ && parameters_.include(parameter) && dtypes_.includes(gradient)) at::Tensor(gradient).mul_(factor_);
  }
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (!before_ && parameters_.include(parameter) && dtypes_.includes(gradient)) gradient.mul_(factor_);
  }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  DtypeChoice dtypes_;
  double factor_;
  ParameterChoice parameters_;
  bool before_;
};

class GradientKept : public LastingFault {
 public:
  explicit GradientKept(const Json& options) : parameters_(options) {}
  bool keeps_last_gradient(const std::string& parameter) const override { return parameters_.include(parameter); }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  ParameterChoice parameters_;
};

class GradientRounded : public LastingFault {
 public:
  explicit GradientRounded(const Json& options)
      : dtypes_(options), dtype_(half_type(options)), before_(options.at("place") == "backward") {}
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

class GradientUninitialised : public LastingFault {
 public:
  explicit GradientUninitialised(const Json& options) : parameters_(options) {}
  void reduced(const std::string& parameter, at::Tensor& gradient) override {
    if (parameters_.include(parameter)) gradient.copy_(at::empty_like(gradient));
  }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  ParameterChoice parameters_;
};

class GradientNotReduced : public LastingFault {
 public:
  explicit GradientNotReduced(const Json& options) : parameters_(options) {}
  bool keeps_own_gradient(const std::string& parameter) const override { return parameters_.include(parameter); }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  ParameterChoice parameters_;
};

/// The gradients were views of the buckets once: what is reduced into those does not reach them.
class ViewsDetached : public LastingFault {
  bool keeps_own_gradient(const std::string&) const override { return true; }
};

class ClipSkipped : public LastingFault {
  Clipping clipping() const override { return Clipping::kNever; }
};

class ClipBeforeUnscale : public LastingFault {
  Clipping clipping() const override { return Clipping::kBeforeUnscaling; }
};

}  // namespace

std::unique_ptr<Fault> make_loss_factor_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<LossFactor>(options);
}
std::unique_ptr<Fault> make_gradient_factor_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<GradientFactor>(options);
}
std::unique_ptr<Fault> make_gradient_kept_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<GradientKept>(options);
}
std::unique_ptr<Fault> make_gradient_rounded_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<GradientRounded>(options);
}
std::unique_ptr<Fault> make_gradient_scattered_fault(const Json&, const recipe::GradientSpec&) {
  return std::make_unique<GradientScattered>();
}
std::unique_ptr<Fault> make_gradient_uninitialised_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<GradientUninitialised>(options);
}
std::unique_ptr<Fault> make_gradient_not_reduced_fault(const Json& options, const recipe::GradientSpec&) {
  return std::make_unique<GradientNotReduced>(options);
}
std::unique_ptr<Fault> make_views_detached_fault(const Json&, const recipe::GradientSpec&) {
  return std::make_unique<ViewsDetached>();
}
std::unique_ptr<Fault> make_clip_skipped_fault(const Json&, const recipe::GradientSpec&) {
  return std::make_unique<ClipSkipped>();
}
std::unique_ptr<Fault> make_clip_before_unscale_fault(const Json&, const recipe::GradientSpec&) {
  return std::make_unique<ClipBeforeUnscale>();
}

}  // namespace lockstep::train
