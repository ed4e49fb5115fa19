#include "harness/train/loader.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"

namespace lockstep::train {

Loader::Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch)
    : sampler_(std::move(sampler)), micro_batch_(micro_batch) {
  if (sampler_->size() > 0) return;
  throw InputError({.what = "a rank gets no samples",
                    .where = "train.sampler",
                    .expected = "at least one sample for each rank",
                    .next = "use more data, fewer ranks, or drop_last = false"});
}

void Loader::begin_epoch(std::int64_t epoch) {
  at_.epoch = epoch;
  at_.position = 0;
  at_.epoch_rng = at::detail::getDefaultCPUGenerator().get_state();
  at::empty({}, at::kLong).random_();  // the iterator's base seed; nobody uses it without worker processes
  order_ = sampler_->order(epoch);
}

std::vector<std::int64_t> Loader::next() {
  if (at_.epoch < 0 || at_.position >= static_cast<std::int64_t>(order_.size())) begin_epoch(at_.epoch + 1);
  const std::int64_t end =
      std::min<std::int64_t>(at_.position + micro_batch_, static_cast<std::int64_t>(order_.size()));
  std::vector<std::int64_t> ids(order_.begin() + at_.position, order_.begin() + end);
  at_.position = end;
  return ids;
}

std::int64_t Loader::size_of(std::int64_t ahead) const {
  const std::int64_t all = sampler_->size();
  const std::int64_t left = at_.epoch < 0 ? 0 : all - at_.position;
  const auto batches = [this](std::int64_t samples) { return (samples + micro_batch_ - 1) / micro_batch_; };
  if (ahead < batches(left)) return std::min(micro_batch_, left - ahead * micro_batch_);
  const std::int64_t in_its_epoch = (ahead - batches(left)) % batches(all);
  return std::min(micro_batch_, all - in_its_epoch * micro_batch_);
}

std::int64_t Loader::epochs_finished() const {
  return at_.epoch < 0 ? 0 : at_.epoch + (at_.position >= sampler_->size() ? 1 : 0);
}

void Loader::restore(std::int64_t epoch, std::int64_t position) {
  begin_epoch(epoch);
  if (position < 0 || position > sampler_->size()) {
    throw InputError({.what = "the checkpoint's position lies outside this training's epoch",
                      .where = "train.checkpoint.load",
                      .expected = "from 0 to " + std::to_string(sampler_->size()) + " samples of a rank",
                      .actual = std::to_string(position),
                      .next = "load into a training with the same data and sampler, or restore no sampler"});
  }
  at_.position = position;
}

}  // namespace lockstep::train
