#include "harness/train/loop/loader.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"

namespace lockstep::train {

Loader::Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch, std::int64_t world_size, bool drop_last)
    : sampler_(std::move(sampler)),
      micro_batch_(micro_batch),
      world_size_(world_size),
      size_(drop_last ? sampler_->size() / micro_batch * micro_batch : sampler_->size()) {
  if (size_ > 0) return;
  throw InputError(
      {.what = "a rank gets no samples",
       .where = "train.sampler",
       .expected = drop_last ? "at least one whole batch for each rank" : "at least one sample for each rank",
       .next = "use more data, fewer ranks, or drop_last = false"});
}

void Loader::begin_epoch(std::int64_t epoch, std::int64_t batches) {
  at_.epoch = epoch;
  at_.position = 0;
  at_.batches = batches;
  at_.sampler_rng = sampler_->generator();
  at_.epoch_rng = at::detail::getDefaultCPUGenerator().get_state();
  at::empty({}, at::kLong).random_();  // the iterator's base seed; nobody uses it without worker processes
  order_ = sampler_->order({.epoch = epoch, .batches = batches});
  order_.resize(static_cast<std::size_t>(size_));
  at_.ended = false;
}

std::vector<std::int64_t> Loader::next() {
  if (at_.epoch < 0) {
    begin_epoch(0, 0);
  } else if (at_.position >= static_cast<std::int64_t>(order_.size())) {
    begin_epoch(at_.epoch + 1, at_.batches + batches_in(at_.position));
  }
  const std::int64_t end =
      std::min<std::int64_t>(at_.position + micro_batch_, static_cast<std::int64_t>(order_.size()));
  std::vector<std::int64_t> ids(order_.begin() + at_.position, order_.begin() + end);
  at_.position = end;
  at_.ended = end == size_;
  return ids;
}

std::int64_t Loader::size_of(std::int64_t ahead) const {
  const std::int64_t all = size_;
  const std::int64_t left = at_.epoch < 0 ? 0 : all - at_.position;
  if (ahead < batches_in(left)) return std::min(micro_batch_, left - ahead * micro_batch_);
  const std::int64_t in_its_epoch = (ahead - batches_in(left)) % batches_in(all);
  return std::min(micro_batch_, all - in_its_epoch * micro_batch_);
}

std::int64_t Loader::epochs_finished() const { return at_.epoch < 0 ? 0 : at_.epoch + (at_epoch_end() ? 1 : 0); }

void Loader::restore(LoaderPosition saved, std::int64_t world_size) {
  if (sampler_->generator().defined() != saved.sampler_rng.defined()) {
    throw InputError(
        {.what = "the order of this sampler cannot be restored: it follows a generator of its own",
         .where = "train.sampler",
         .expected = saved.sampler_rng.defined() ? "the sampler that saved" : "the generator's saved state",
         .next = "give the sampler a seed, or restore no sampler"});
  }
  if (world_size != world_size_) {
    const auto behind = position_behind(saved, world_size);
    if (!behind) {
      throw InputError({.what = "the saved position in the data does not exist at this world size",
                        .where = "train.checkpoint.load",
                        .expected = "a sampler whose ranks take turns, and a position at the end of a turn",
                        .actual = std::to_string(saved.position) + " samples on each of " + std::to_string(world_size) +
                                  " ranks, to continue with " + std::to_string(world_size_),
                        .next = "set train.checkpoint.load.epoch to next or again, or restore no sampler"});
    }
    saved.position = *behind;
  }
  if (saved.sampler_rng.defined()) sampler_->set_generator(saved.sampler_rng);
  begin_epoch(saved.epoch, saved.batches);
  if (saved.position < 0 || saved.position > size_) {
    throw InputError({.what = "the checkpoint's position lies outside this training's epoch",
                      .where = "train.checkpoint.load",
                      .expected = "from 0 to " + std::to_string(size_) + " samples of a rank",
                      .actual = std::to_string(saved.position),
                      .next = "load into a training with the same data and sampler, or restore no sampler"});
  }
  at_.position = saved.position;
  at_.ended = at_.position == size_;
}

/// Nothing is left of an epoch that ended, on any number of ranks; what pads one of them may differ.
std::optional<std::int64_t> Loader::position_behind(const LoaderPosition& saved, std::int64_t world_size) const {
  if (saved.ended) return size_;
  const auto behind = sampler_->position_behind(saved.position, world_size);
  return behind ? std::optional(std::min(*behind, size_)) : std::nullopt;
}

std::int64_t Loader::samples_taken(const LoaderPosition& saved, std::int64_t world_size) const {
  const auto behind = position_behind(saved, world_size);
  return saved.epoch * size_ + behind.value_or(std::min(saved.position * world_size / world_size_, size_));
}

void Loader::restart(std::int64_t epoch, std::int64_t batches) {
  order_.clear();
  at_ = {.epoch = epoch - 1, .position = size_, .batches = batches - batches_in(size_), .ended = true};
}

}  // namespace lockstep::train
