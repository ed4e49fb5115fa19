#include "harness/train/ddp/gradients.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/train/device/tensors.h"
#include "harness/train/loop/clip.h"

namespace lockstep::train {
namespace {

using trace::Channel;

/// Sees a parameter's accumulated local gradient before the Reducer takes it; changes no bit of the reduction
/// (measured).
class LocalGradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit LocalGradientHook(std::function<void(const at::Tensor&)> action) : action_(std::move(action)) {}
  void operator()(const torch::autograd::Variable& parameter) override { action_(parameter.grad()); }

 private:
  std::function<void(const at::Tensor&)> action_;
};

}  // namespace

Gradients::Gradients(const std::vector<NamedTensor>& parameters, const recipe::GradientSpec& spec,
                     record::Recorder& recorder, const Faults& faults, Collective& collective)
    : spec_(spec), recorder_(recorder), faults_(faults), collective_(collective) {
  if (spec_.loss_scale) scale_.emplace(spec_);
  for (const NamedTensor& parameter : parameters) entries_.push_back({.parameter = parameter, .seen = {}, .kept = {}});
  for (std::size_t i = 0; i < entries_.size(); ++i) watch(i);
}

void Gradients::watch(std::size_t i) {
  torch::autograd::impl::set_post_acc_grad_hooks(
      entries_[i].parameter.tensor, std::make_unique<LocalGradientHook>([this, i](const at::Tensor& gradient) {
        if (!last_) return;
        Entry& entry = entries_[i];
        faults_.each(&Fault::own_gradient, entry.parameter.name, gradient);
        if (recorder_.wants(Channel::kGradientLocal))
          entry.seen = recorder_.observe(Channel::kGradientLocal, entry.parameter.name, view_of(gradient));
        faults_.each(&Fault::sent_gradient, entry.parameter.name, gradient);
        if (faults_.any(&Fault::keeps_own_gradient, entry.parameter.name)) entry.kept = gradient.clone();
      }));
}

void Gradients::begin() {
  for (Entry& entry : entries_) {
    if (!faults_.any(&Fault::keeps_last_gradient, entry.parameter.name)) entry.parameter.tensor.mutable_grad().reset();
  }
}

std::int64_t Gradients::left() const {
  const std::vector<at::Tensor> all = present();
  return std::count_if(all.begin(), all.end(), [](const at::Tensor& gradient) { return gradient.any().item<bool>(); });
}

bool Gradients::finish() {
  if (faults_.any(&Fault::reduces_by_hand)) faults_.each(&Fault::reduce, named(), collective_);
  record_reduced();
  const Fault::Clipping clipping = faults_.passed(&Fault::clipping, Fault::Clipping::kAfterUnscaling);
  if (clipping == Fault::Clipping::kBeforeUnscaling) clip();
  bool finite = true;
  if (scale_) {
    std::vector<at::Tensor> scaled;
    for (const NamedTensor& gradient : named()) {
      if (!faults_.any(&Fault::keeps_scale, gradient.name)) scaled.push_back(gradient.tensor);
    }
    finite = scale_->unscale(std::move(scaled));
    record_again("unscaled");
  }
  if (!spec_.clip_norm && !spec_.clip_value) return finite;
  if (clipping == Fault::Clipping::kAfterUnscaling) clip();
  record_again("clipped");
  return finite;
}

void Gradients::clip() {
  if (faults_.any(&Fault::clip, named(), spec_)) return;
  if (spec_.clip_norm) clip_norm(present(), *spec_.clip_norm);
  if (spec_.clip_value) clip_value(present(), *spec_.clip_value);
}

void Gradients::record_reduced() {
  for (Entry& entry : entries_) {
    if (entry.seen) recorder_.add(*std::exchange(entry.seen, std::nullopt));
    at::Tensor& gradient = entry.parameter.tensor.mutable_grad();
    if (entry.kept.defined()) gradient.copy_(std::exchange(entry.kept, at::Tensor()));
    if (!gradient.defined()) continue;
    faults_.each(&Fault::reduced, entry.parameter.name, gradient);
    recorder_.tensor(Channel::kGradient, entry.parameter.name, view_of(gradient));
  }
}

/// The gradients once more, after something was done to them.
void Gradients::record_again(const std::string& done) {
  for (const Entry& entry : entries_) {
    const at::Tensor& gradient = entry.parameter.tensor.grad();
    if (gradient.defined()) recorder_.tensor(Channel::kGradient, done + " " + entry.parameter.name, view_of(gradient));
  }
}

std::vector<NamedTensor> Gradients::named() const {
  std::vector<NamedTensor> all;
  for (const Entry& entry : entries_) {
    if (entry.parameter.tensor.grad().defined()) all.push_back({entry.parameter.name, entry.parameter.tensor.grad()});
  }
  return all;
}

std::vector<at::Tensor> Gradients::present() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& gradient : named()) all.push_back(gradient.tensor);
  return all;
}

}  // namespace lockstep::train
