#include <numeric>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// A DataLoader without a distributed sampler: every rank takes everything.
class EverySample : public Sampler {
 public:
  EverySample(bool shuffle, std::int64_t samples) : shuffle_(shuffle), samples_(samples) {}

  std::vector<std::int64_t> order(const Pass&) override {
    if (shuffle_) return random_order(samples_);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(samples_));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
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
