#include "harness/train/recording/slope_recorder.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "harness/train/device/generator.h"
#include "harness/train/loop/autocast.h"
#include "harness/train/loop/loss.h"

namespace lockstep::train {

using trace::Channel;

void SlopeRecorder::begin() {
  chosen_ = chosen_parameters();
  slopes_.clear();
  buffers_.clear();
}

/// Parameters whose slopes are recorded in this update: where somebody looks closely at its local gradients, or it is
/// one of those that tell most. The loss alone must tell them: no layer reduces, no grid rounds, and none is reduced
/// before the last backward pass.
std::set<std::size_t> SlopeRecorder::chosen_parameters() const {
  const recipe::TrainSpec& spec = parts_.spec;
  const auto& captures = spec.record.captures;
  const bool asked = std::any_of(captures.begin(), captures.end(), [&](const recipe::CaptureSpec& capture) {
    return capture.step == parts_.updates && capture.channel == trace::name_of(Channel::kGradientLocal);
  });
  const bool can = !parts_.exact && spec.norm() != recipe::Norm::kSyncBatch &&
                   (spec.batch.accumulation == 1 || spec.batch.no_sync) && recorder_.wants(Channel::kLedger);
  const std::size_t count = parts_.ddp->parameters().size();
  if (!can || count == 0) return {};
  std::set<std::size_t> chosen;
  if (asked || (spec.record.slopes && parts_.updates == first_update_)) {
    for (std::size_t i = 0; i < count; ++i) chosen.insert(i);
  } else if (spec.record.slopes && tells_most()) {
    // Each takes some forward passes. The first needs the backward passes of all layers; others are taken in turn.
    chosen = {0, count - 1, static_cast<std::size_t>(parts_.updates) % count};
  }
  return chosen;
}

/// An even update and an odd one, the first that ends an epoch, maybe by a short batch, and the last.
bool SlopeRecorder::tells_most() const {
  const bool ends_first_epoch = parts_.loader.epochs_finished() == first_epochs_ &&
                                parts_.loader.batches_left() <= parts_.spec.batch.accumulation;
  return parts_.updates - first_update_ < 2 || ends_first_epoch || parts_.updates + 1 == parts_.spec.steps;
}

void SlopeRecorder::add(const MicroBatch& batch, std::int64_t targets_of_world) {
  if (chosen_.empty()) return;
  const at::DisableRecordFunctionGuard unlogged;
  const Device& device = parts_.rank.device;
  const GeneratorStates generators = generator_states(device);
  const Samples there = batch.on(device.place());
  const Copies copies{.exact = parts_.copy_of_model(at::kDouble),
                      .rounded = parts_.copy_of_model(precision_of(parts_.spec))};
  const auto logits = [&](Model& model) {
    const bool exact = &model == copies.exact.get();
    restore_generators(device, generators);
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < model.buffers().size(); ++i) model.buffers()[i].copy_(parts_.model->buffers()[i]);
    }
    const Autocast autocast(exact ? recipe::Autocast::kNone : parts_.spec.autocast, device.place().type());
    const at::Tensor x = exact && there.x.is_floating_point() ? there.x.to(at::kDouble) : there.x;
    return model.forward(x);
  };
  const auto loss = [&](Model& model) { return criterion_.loss(logits(model), there.y, targets_of_world); };
  {
    const at::NoGradGuard no_grad;
    const at::Tensor exact = logits(*copies.exact), rounded = logits(*copies.rounded);
    record_expected_loss(exact, rounded, there.y, batch.suffix, targets_of_world);
    if (batch.last) take_expected_buffers(copies);
  }
  const double scale = gradients_.loss_scale().value_or(1);
  for (const auto& [i, slope] : slopes_of(copies, loss, scale, chosen_)) slopes_[i] += slope;
  restore_generators(device, generators);
}

/// The loss that the recipe asks for, of logits in float64 and in the training's dtype.
void SlopeRecorder::record_expected_loss(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& labels,
                                         const std::string& suffix, std::int64_t targets_of_world) {
  const at::Tensor losses = losses_of_targets(exact, labels),
                   apart = (rounded_losses_of_targets(rounded, labels) - losses).abs();
  const recipe::TrainSpec& spec = parts_.spec;
  const double divisor = spec.loss_average == recipe::LossAverage::kWorld
                             ? static_cast<double>(targets_of_world) / static_cast<double>(parts_.rank.place.world_size)
                             : static_cast<double>(std::max<std::int64_t>(losses.numel(), 1) * spec.batch.accumulation);
  recorder_.number(Channel::kLedger, "seen.loss" + suffix, losses.sum().item<double>() / divisor);
  recorder_.number(Channel::kLedger, "seen.loss_rounding" + suffix, apart.sum().item<double>() / divisor);
}

/// The buffers that a forward pass in training mode leaves, along the signs of their sketches.
void SlopeRecorder::take_expected_buffers(const Copies& copies) {
  const auto rounded = copies.rounded->named_buffers();
  for (const auto& entry : copies.exact->named_buffers()) {
    if (!entry.value().is_floating_point()) continue;
    buffers_.push_back({.name = entry.key(),
                        .along = along_signs(entry.value()),
                        .rounding = (rounded[entry.key()] - entry.value()).abs().sum().item<double>()});
  }
}

void SlopeRecorder::record() const {
  for (const auto& [i, slope] : slopes_) {
    const std::string& name = parts_.ddp->parameters()[i].name;
    recorder_.number(Channel::kLedger, "seen.slope " + name, slope.slope);
    recorder_.number(Channel::kLedger, "seen.slope_error " + name, slope.error);
    recorder_.number(Channel::kLedger, "seen.slope_rounding " + name, slope.rounding);
  }
  for (const ExpectedBuffer& buffer : buffers_) {
    recorder_.number(Channel::kLedger, "seen.buffer " + buffer.name, buffer.along);
    recorder_.number(Channel::kLedger, "seen.buffer_rounding " + buffer.name, buffer.rounding);
  }
}

}  // namespace lockstep::train
