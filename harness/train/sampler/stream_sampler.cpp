#include <numeric>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// An iterable data set: samples come in their own order, each rank keeps every W-th, and shuffles through a buffer.
/// *Source*: torch.utils.data.IterableDataset (its note on sharding); the buffer is that of WebDataset and tf.data.
class StreamSampler : public Sampler {
 public:
  StreamSampler(const Json& options, const Share& share)
      : shard_(options.at("shard").get<bool>()),
        buffer_(options.at("buffer").get<std::size_t>()),
        seed_(options.at("seed").get<std::uint64_t>()),
        share_(share) {}

  std::vector<std::int64_t> order(const Pass& pass) override {
    at::Generator generator = at::detail::createCPUGenerator(seed_ + static_cast<std::uint64_t>(pass.epoch));
    const auto drawn = [&](std::size_t below) {
      return static_cast<std::size_t>(
          at::randint(static_cast<std::int64_t>(below), {1}, generator, at::TensorOptions(at::kLong))
              .item<std::int64_t>());
    };
    std::vector<std::int64_t> waiting, mine;
    const std::int64_t stride = shard_ ? share_.world_size : 1;
    for (std::int64_t i = 0, id = shard_ ? share_.rank : 0; i < size(); ++i, id += stride) {
      waiting.push_back(id);
      if (waiting.size() >= buffer_) mine.push_back(taken(waiting, drawn));
    }
    while (!waiting.empty()) mine.push_back(taken(waiting, drawn));
    return mine;
  }

  /// Ranks whose stream would be longer by one stop with the others.
  std::int64_t size() const override { return shard_ ? share_.samples / share_.world_size : share_.samples; }

 private:
  template <class Draw>
  static std::int64_t taken(std::vector<std::int64_t>& waiting, const Draw& drawn) {
    const std::size_t i = waiting.size() == 1 ? 0 : drawn(waiting.size());
    std::swap(waiting[i], waiting.back());
    const std::int64_t id = waiting.back();
    waiting.pop_back();
    return id;
  }

  bool shard_;
  std::size_t buffer_;
  std::uint64_t seed_;
  Share share_;
};

}  // namespace

std::unique_ptr<Sampler> make_stream_sampler(const Json& options, const Share& share) {
  return std::make_unique<StreamSampler>(options, share);
}

}  // namespace lockstep::train
