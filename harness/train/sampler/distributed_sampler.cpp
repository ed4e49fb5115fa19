#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

class DistributedSampler : public Sampler {
 public:
  DistributedSampler(Json options, const Share& share) : options_(std::move(options)), share_(share) {}

  std::vector<std::int64_t> order(const Pass& pass) override {
    const std::vector<std::int64_t> all = even_order(options_, share_, pass);
    std::vector<std::int64_t> mine;
    for (auto i = static_cast<std::size_t>(share_.rank); i < all.size();
         i += static_cast<std::size_t>(share_.world_size))
      mine.push_back(all[i]);
    return mine;
  }

  std::optional<std::int64_t> position_behind(std::int64_t taken, std::int64_t world_size) const override {
    return position_behind_turns(share_, 1, taken, world_size);
  }

  std::int64_t size() const override { return even_size(options_, share_); }

 private:
  Json options_;
  Share share_;
};

}  // namespace

std::unique_ptr<Sampler> make_distributed_sampler(const Json& options, const Share& share) {
  return std::make_unique<DistributedSampler>(options, share);
}

}  // namespace lockstep::train
