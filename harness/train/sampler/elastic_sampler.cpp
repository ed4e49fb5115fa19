#include <ATen/CPUGeneratorImpl.h>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// Leaves out the first `start` samples: what a worker that joins in the middle of an epoch still has to do.
/// *Source*: torchelastic.utils.data.ElasticDistributedSampler (pytorch/elastic).
class ElasticSampler : public Sampler {
 public:
  ElasticSampler(const Json& options, const Share& share)
      : start_(options.at("start").get<std::int64_t>()),
        set_epoch_(options.at("set_epoch").get<bool>()),
        share_(share) {}

  std::vector<std::int64_t> order(const Pass& pass) override {
    const std::int64_t left = share_.samples - start_;
    std::vector<std::int64_t> all =
        permutation(left, at::detail::createCPUGenerator(static_cast<std::uint64_t>(set_epoch_ ? pass.epoch : 0)));
    const auto total = static_cast<std::size_t>(size() * share_.world_size);
    for (std::size_t i = all.size(); i < total; ++i) all.push_back(all[i % static_cast<std::size_t>(left)]);
    std::vector<std::int64_t> mine;
    for (auto i = static_cast<std::size_t>(share_.rank); i < total; i += static_cast<std::size_t>(share_.world_size))
      mine.push_back(all[i] + start_);
    return mine;
  }

  std::optional<std::int64_t> position_behind(std::int64_t taken, std::int64_t world_size) const override {
    return position_behind_turns(share_, 1, taken, world_size);
  }

  std::int64_t size() const override {
    const std::int64_t left = share_.samples - start_;
    return left > 0 ? (left + share_.world_size - 1) / share_.world_size : 0;
  }

 private:
  std::int64_t start_;
  bool set_epoch_;
  Share share_;
};

}  // namespace

std::unique_ptr<Sampler> make_elastic_sampler(const Json& options, const Share& share) {
  return std::make_unique<ElasticSampler>(options, share);
}

}  // namespace lockstep::train
