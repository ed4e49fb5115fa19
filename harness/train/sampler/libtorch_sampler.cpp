#include <torch/data/samplers/distributed.h>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// LibTorch's own sampler, which C++ trainings use: std::mt19937, contiguous blocks. Another order than Python's.
class LibtorchSampler : public Sampler {
 public:
  LibtorchSampler(const Json& options, const Share& share)
      : set_epoch_(options.at("set_epoch").get<bool>()),
        sampler_(static_cast<std::size_t>(share.samples), static_cast<std::size_t>(share.world_size),
                 static_cast<std::size_t>(share.rank)),
        size_((share.samples + share.world_size - 1) / share.world_size) {}

  std::vector<std::int64_t> order(const Pass& pass) override {
    if (set_epoch_) sampler_.set_epoch(static_cast<std::size_t>(pass.epoch));
    sampler_.reset();
    std::vector<std::int64_t> mine;
    while (const auto next = sampler_.next(1)) mine.push_back(static_cast<std::int64_t>(next->front()));
    return mine;
  }

  std::int64_t size() const override { return size_; }

 private:
  bool set_epoch_;
  torch::data::samplers::DistributedRandomSampler sampler_;
  std::int64_t size_;
};

}  // namespace

std::unique_ptr<Sampler> make_libtorch_sampler(const Json& options, const Share& share) {
  return std::make_unique<LibtorchSampler>(options, share);
}

}  // namespace lockstep::train
