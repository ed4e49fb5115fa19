#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

class ContiguousSampler : public Sampler {
 public:
  ContiguousSampler(Json options, const Share& share) : options_(std::move(options)), share_(share) {}

  std::vector<std::int64_t> order(const Pass& pass) override {
    const std::vector<std::int64_t> all = even_order(options_, share_, pass);
    const auto each = static_cast<std::ptrdiff_t>(all.size()) / share_.world_size;
    return {all.begin() + share_.rank * each, all.begin() + (share_.rank + 1) * each};
  }

  std::int64_t size() const override { return even_size(options_, share_); }

 private:
  Json options_;
  Share share_;
};

}  // namespace

std::unique_ptr<Sampler> make_contiguous_sampler(const Json& options, const Share& share) {
  return std::make_unique<ContiguousSampler>(options, share);
}

}  // namespace lockstep::train
