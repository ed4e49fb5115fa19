// Gradients that backward leaves wrong, that are sent as others, clipped by another norm, or unscaled in part.
#include <ATen/ATen.h>

#include "harness/train/fault/lasting.h"
#include "harness/train/loop/clip.h"

namespace lockstep::train {
namespace {

class OwnGradientWrong : public ParameterFault {
 public:
  using Mistake = recipe::OwnGradientWrongMistake;
  using Place = recipe::OwnGradientWrongPlace;

  explicit OwnGradientWrong(const Json& options)
      : ParameterFault(options),
        mistake_(recipe::kind_at<Mistake>(options, "mistake")),
        factor_(options.at("factor").get<double>()),
        sending_(recipe::kind_at<Place>(options, "place") == Place::kSending) {}

  void own_gradient(const std::string& parameter, const at::Tensor& gradient) override {
    if (!sending_ && includes(parameter)) change(gradient);
  }
  void sent_gradient(const std::string& parameter, const at::Tensor& gradient) override {
    if (sending_ && includes(parameter)) change(gradient);
  }

 private:
  void change(at::Tensor gradient) const {
    const at::NoGradGuard no_grad;
    if (mistake_ == Mistake::kScaled) gradient.mul_(factor_);
    if (mistake_ == Mistake::kNegated) gradient.neg_();
    if (mistake_ == Mistake::kZeroed) gradient.zero_();
    // Read in the order of the other layout, as a kernel does that swaps the matrix's sides.
    if (mistake_ == Mistake::kTransposed && gradient.dim() > 1)
      gradient.copy_(gradient.flatten(1).t().clone(at::MemoryFormat::Contiguous).view(gradient.sizes()));
    if (mistake_ == Mistake::kShifted) gradient.copy_(gradient.roll(1, 0));
  }

  Mistake mistake_;
  double factor_;
  bool sending_;
};

class ClippedWrong : public LastingFault {
 public:
  using Mistake = recipe::ClipWrongMistake;

  explicit ClippedWrong(const Json& options)
      : mistake_(recipe::kind_at<Mistake>(options, "mistake")), left_out_(options) {}

  bool clip(const std::vector<NamedTensor>& gradients, const recipe::GradientSpec& spec) override {
    if (!spec.clip_norm) return false;
    if (mistake_ == Mistake::kPerTensor) {
      for (const NamedTensor& one : gradients) clip_norm({one.tensor}, *spec.clip_norm);
      return true;
    }
    std::vector<at::Tensor> all, measured;
    for (const NamedTensor& one : gradients) {
      all.push_back(one.tensor);
      if (mistake_ != Mistake::kPart || !left_out_.include(one.name)) measured.push_back(one.tensor);
    }
    at::Tensor norm = at::stack(at::_foreach_norm(measured, mistake_ == Mistake::kSum ? 1.0 : 2.0));
    norm = mistake_ == Mistake::kSum ? norm.sum() : norm.norm();
    if (mistake_ == Mistake::kSquared) norm = norm.square();
    at::Tensor factor = (norm + 1e-6).reciprocal().mul(*spec.clip_norm);
    if (mistake_ != Mistake::kUpwards) factor = factor.clamp_max(1.0);
    at::_foreach_mul_(all, factor);
    return true;
  }

 private:
  Mistake mistake_;
  ParameterChoice left_out_;
};

class UnscaledInPart : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;
  bool keeps_scale(const std::string& parameter) const override { return includes(parameter); }
};

/// zero_grad stands in the loop over the micro-batches.
class AccumulationLost : public LastingFault {
  bool clears_between_micro_batches() const override { return true; }
};

class AccumulationDivisor : public LastingFault {
 public:
  explicit AccumulationDivisor(const Json& options) : divisor_(options.at("divisor").get<std::int64_t>()) {}
  std::int64_t accumulation(std::int64_t) const override { return divisor_; }

 private:
  std::int64_t divisor_;
};

}  // namespace

LOCKSTEP_FAULT(own_gradient_wrong, OwnGradientWrong, options)
LOCKSTEP_FAULT(clip_wrong, ClippedWrong, options)
LOCKSTEP_FAULT(unscale_partial, UnscaledInPart, options)
LOCKSTEP_FAULT(accumulation_lost, AccumulationLost)
LOCKSTEP_FAULT(accumulation_divisor, AccumulationDivisor, options)

}  // namespace lockstep::train
