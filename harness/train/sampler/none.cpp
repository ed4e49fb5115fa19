#include <numeric>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/train/sampler.h"

namespace lockstep::train {
namespace {

/// A DataLoader without a distributed sampler: every rank takes everything.
class EverySample : public Sampler {
 public:
  EverySample(bool shuffle, std::int64_t samples) : shuffle_(shuffle), samples_(samples) {}

  std::vector<std::int64_t> order(std::int64_t) override {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(samples_));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    if (!shuffle_) return ids;
    // torch.utils.data.RandomSampler draws the seed of its own generator from the default one.
    const auto seed = at::empty({}, at::kLong).random_().item<std::int64_t>();
    at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
    const at::Tensor permutation = at::randperm(samples_, generator, at::TensorOptions(at::kLong));
    ids.assign(permutation.const_data_ptr<std::int64_t>(), permutation.const_data_ptr<std::int64_t>() + samples_);
    return ids;
  }

  std::int64_t size() const override { return samples_; }

 private:
  bool shuffle_;
  std::int64_t samples_;
};

}  // namespace

std::unique_ptr<Sampler> make_none_sampler(const Json& options, const Share& share) {
  return std::make_unique<EverySample>(options.at("shuffle").get<bool>(), share.samples);
}

}  // namespace lockstep::train
