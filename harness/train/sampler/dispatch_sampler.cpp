#include <numeric>

#include <ATen/ATen.h>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// Rank 0 reads for all ranks and deals each round of batches out in slices: only its generator decides the order.
/// *Source*: accelerate 1.15, data_loader.py: DataLoaderDispatcher.
class DispatchSampler : public Sampler {
 public:
  DispatchSampler(bool shuffle, const Share& share)
      : shuffle_(shuffle), share_(share), round_(share.micro_batch * share.world_size) {}

  std::vector<std::int64_t> order(const Pass&) override {
    const std::vector<std::int64_t> all = order_of_rank_0();
    std::vector<std::int64_t> mine;
    for (std::int64_t begin = 0; begin < share_.samples; begin += round_) {
      // The last round may be short; what it lacks to a multiple of the ranks comes from the epoch's beginning.
      const std::int64_t count = slice(std::min(round_, share_.samples - begin));
      for (std::int64_t i = begin + share_.rank * count; i < begin + (share_.rank + 1) * count; ++i)
        mine.push_back(all[static_cast<std::size_t>(i < share_.samples ? i : (i - share_.samples) % share_.samples)]);
    }
    return mine;
  }

  std::int64_t size() const override {
    return share_.samples / round_ * share_.micro_batch + slice(share_.samples % round_);
  }

  std::int64_t rows_before(std::int64_t rows) const override { return share_.rank * rows; }

 private:
  std::int64_t slice(std::int64_t samples) const { return (samples + share_.world_size - 1) / share_.world_size; }

  std::vector<std::int64_t> order_of_rank_0() const {
    at::Tensor order = at::arange(share_.samples, at::kLong);
    if (share_.rank == 0 && shuffle_) order = at::tensor(random_order(share_.samples), at::kLong);
    std::vector<at::Tensor> tensors{order};
    if (share_.group) share_.group->broadcast(tensors)->wait();
    return {order.const_data_ptr<std::int64_t>(), order.const_data_ptr<std::int64_t>() + share_.samples};
  }

  bool shuffle_;
  Share share_;
  std::int64_t round_;  ///< samples that all ranks take at once
};

}  // namespace

std::unique_ptr<Sampler> make_dispatch_sampler(const Json& options, const Share& share) {
  return std::make_unique<DispatchSampler>(options.at("shuffle").get<bool>(), share);
}

}  // namespace lockstep::train
