#include <algorithm>
#include <numeric>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"
#include "harness/train/sampler/sampler.h"

namespace lockstep::train {
namespace {

/// What accelerate.prepare makes of a DataLoader: whole batches are dealt out to the ranks in turn, or, with
/// split_batches, slices of larger ones: the same order, where the micro-batches are equally large. A single rank's
/// loader stays as it was.
/// *Source*: accelerate 1.15, data_loader.py: BatchSamplerShard, SeedableRandomSampler, DataLoaderShard.
class AccelerateSampler : public Sampler {
 public:
  AccelerateSampler(const Json& options, const Share& share)
      : shuffle_(options.at("shuffle").get<bool>()),
        drop_last_(options.at("drop_last").get<bool>()),
        even_batches_(options.at("even_batches").get<bool>() && share.world_size > 1),
        share_(share),
        round_(share.micro_batch * share.world_size) {
    if (options.contains("seed")) seed_ = options["seed"].get<std::uint64_t>();
    const std::int64_t rest = share_.samples % round_;
    if (even_batches_ || drop_last_ || rest == 0 || rest > round_ - share_.micro_batch) return;
    throw InputError(
        {.what = "without even_batches some ranks would get one batch less, and the others would wait forever",
         .where = "train.sampler.even_batches",
         .expected = "data that leave each rank at least a sample of the last batches",
         .actual = std::to_string(rest) + " samples in the last " + std::to_string(share_.world_size) + " batches of " +
                   std::to_string(share_.micro_batch),
         .next = "set even_batches or drop_last, or use other data"});
  }

  void prepare() override {
    if (!shuffle_ || seed_ || share_.world_size == 1) return;
    // Each rank draws a seed of its own; before every epoch rank 0's generator is copied to all.
    const auto drawn = at::empty({}, at::kLong).random_().item<std::int64_t>();
    generator_ = at::detail::createCPUGenerator(static_cast<std::uint64_t>(drawn));
  }

  at::Tensor generator() const override { return generator_ ? generator_->get_state() : at::Tensor(); }
  void set_generator(const at::Tensor& state) override { generator_->set_state(state); }

  std::vector<std::int64_t> order(const Pass& pass) override {
    const std::vector<std::int64_t> all = global_order(pass);
    std::vector<std::int64_t> mine;
    const auto count = static_cast<std::size_t>(size());
    for (std::int64_t from = share_.rank * share_.micro_batch; mine.size() < count; from += round_) {
      for (std::int64_t i = from; i < from + share_.micro_batch && mine.size() < count; ++i)
        mine.push_back(all[static_cast<std::size_t>(i % share_.samples)]);  // filled up from the epoch's beginning
    }
    return mine;
  }

  std::optional<std::int64_t> position_behind(std::int64_t taken, std::int64_t world_size) const override {
    // A single rank shuffles in another way, unless it has a seed.
    return !shuffle_ || seed_ ? position_behind_turns(share_, share_.micro_batch, taken, world_size) : std::nullopt;
  }

  std::int64_t size() const override {
    const std::int64_t whole = share_.samples / round_ * share_.micro_batch, rest = share_.samples % round_;
    if (drop_last_ || rest == 0) return whole;
    if (even_batches_) return whole + share_.micro_batch;
    return whole + std::clamp<std::int64_t>(rest - share_.rank * share_.micro_batch, 0, share_.micro_batch);
  }

 private:
  std::vector<std::int64_t> global_order(const Pass& pass) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(share_.samples));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    if (!shuffle_) return order;
    if (seed_)
      return permutation(share_.samples,
                         at::detail::createCPUGenerator(*seed_ + static_cast<std::uint64_t>(pass.epoch)));
    if (!generator_) return random_order(share_.samples);
    std::vector<at::Tensor> state{generator_->get_state()};
    if (share_.group) share_.group->broadcast(state)->wait();
    generator_->set_state(state[0]);
    order = permutation(share_.samples, *generator_);
    permutation(share_.samples, *generator_);  // RandomSampler draws for a remainder that is empty
    return order;
  }

  bool shuffle_, drop_last_, even_batches_;
  std::optional<std::uint64_t> seed_;
  std::optional<at::Generator> generator_;
  Share share_;
  std::int64_t round_;  ///< samples that all ranks take at once
};

}  // namespace

std::unique_ptr<Sampler> make_accelerate_sampler(const Json& options, const Share& share) {
  return std::make_unique<AccelerateSampler>(options, share);
}

}  // namespace lockstep::train
