// Samples in other places, orders that the ranks do not share, numbers that somebody else drew.
#include <algorithm>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/fault.h"

namespace lockstep::train {
namespace {

class SwapSamples : public Fault {
 public:
  explicit SwapSamples(const Json& options)
      : first_(options.at("first").get<std::size_t>()), second_(options.at("second").get<std::size_t>()) {}

  void samples(std::vector<std::int64_t>& ids) override {
    require_samples(ids.size());
    std::swap(ids[first_], ids[second_]);
  }

  void require_samples(std::size_t size) const override {
    const std::size_t place = std::max(first_, second_);
    if (place < size) return;
    throw InputError({.what = "swap_samples names a place outside the batch",
                      .where = "train.faults",
                      .expected = "less than " + std::to_string(size),
                      .actual = std::to_string(place)});
  }

 private:
  std::size_t first_, second_;
};

class SamplerSeedByRank : public Fault {
  bool lasts() const override { return true; }

  void sampler(scenario::Choice& sampler, std::int64_t rank) override {
    if (!sampler.options.contains("seed"))
      throw InputError({.what = "a fault changes the sampler's seed, and the sampler has none",
                        .where = "train.faults",
                        .expected = "a sampler with a seed",
                        .actual = sampler.kind});
    sampler.options["seed"] = sampler.options["seed"].get<std::int64_t>() + rank;
  }
};

class ExtraDraw : public Fault {
  void arrive(launch::Phase phase, Collective&) override {
    if (phase == launch::Phase::kForward) at::empty({}, at::kLong).random_();
  }
};

}  // namespace

std::unique_ptr<Fault> make_swap_samples_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<SwapSamples>(options);
}
std::unique_ptr<Fault> make_sampler_seed_by_rank_fault(const Json&, const scenario::GradientSpec&) {
  return std::make_unique<SamplerSeedByRank>();
}
std::unique_ptr<Fault> make_extra_draw_fault(const Json&, const scenario::GradientSpec&) {
  return std::make_unique<ExtraDraw>();
}

}  // namespace lockstep::train
