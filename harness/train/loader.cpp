#include "harness/train/loader.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"

namespace lockstep::train {

Loader::Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch)
    : sampler_(std::move(sampler)), micro_batch_(micro_batch) {}

void Loader::begin_epoch(std::int64_t epoch) {
  at_.epoch = epoch;
  at_.position = 0;
  at_.epoch_rng = at::detail::getDefaultCPUGenerator().get_state();
  at::empty({}, at::kLong).random_();  // the iterator's base seed; nobody uses it without worker processes
  order_ = sampler_->order(epoch);
  if (order_.empty()) {
    throw InputError({.what = "a rank gets no samples",
                      .where = "train.sampler",
                      .expected = "at least one sample for each rank",
                      .next = "use more data, fewer ranks, or drop_last = false"});
  }
}

std::vector<std::int64_t> Loader::next() {
  if (at_.epoch < 0 || at_.position >= static_cast<std::int64_t>(order_.size())) begin_epoch(at_.epoch + 1);
  const std::int64_t end =
      std::min<std::int64_t>(at_.position + micro_batch_, static_cast<std::int64_t>(order_.size()));
  std::vector<std::int64_t> ids(order_.begin() + at_.position, order_.begin() + end);
  at_.position = end;
  return ids;
}

void Loader::restore(std::int64_t epoch, std::int64_t position) {
  begin_epoch(epoch);
  LOCKSTEP_CHECK(position >= 0 && position <= static_cast<std::int64_t>(order_.size()));
  at_.position = position;
}

}  // namespace lockstep::train
