// Samples in other places, orders that the ranks do not share, numbers that somebody else drew.
#include <algorithm>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/fault/lasting.h"

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

class SamplerSeedByRank : public LastingFault {
  void sampler(recipe::SamplerChoice& sampler, std::int64_t rank) override {
    if (!sampler.options.contains("seed"))
      throw InputError({.what = "a fault changes the sampler's seed, and the sampler has none",
                        .where = "train.faults",
                        .expected = "a sampler with a seed",
                        .actual = text_of(sampler.kind)});
    sampler.options["seed"] = sampler.options["seed"].get<std::int64_t>() + rank;
  }
};

/// The sampler is built otherwise than the recipe says.
class SamplerWrong : public LastingFault {
 public:
  using Option = recipe::SamplerWrongOption;

  explicit SamplerWrong(const Json& options)
      : option_(recipe::kind_at<Option>(options, "option")), value_(options.at("value").get<std::int64_t>()) {}

  void sampler(recipe::SamplerChoice& sampler, std::int64_t) override {
    const std::string option = text_of(option_);
    if (!sampler.options.contains(option))
      throw InputError({.what = "a fault changes an option that the sampler does not have",
                        .where = "train.faults",
                        .expected = "an option of " + text_of(sampler.kind),
                        .actual = "'" + option + "'"});
    Json& value = sampler.options[option];
    value = option_ == Option::kSeed ? Json(value_) : Json(value_ != 0);
  }

 private:
  Option option_;
  std::int64_t value_;
};

class ShareOfRank : public LastingFault {
 public:
  explicit ShareOfRank(const Json& options) : rank_(options.at("of_rank").get<std::int64_t>()) {}
  std::int64_t rank_of_share(std::int64_t) const override { return rank_; }

 private:
  std::int64_t rank_;
};

class DropLastWrong : public LastingFault {
  bool drops_last(bool asked) const override { return !asked; }
};

/// Another order of ids than the sampler gave, or another choice.
class SampleOrderWrong : public LastingFault {
 public:
  using Mistake = recipe::SampleOrderWrongMistake;

  explicit SampleOrderWrong(const Json& options) : mistake_(recipe::kind_at<Mistake>(options, "mistake")) {}
  void samples(std::vector<std::int64_t>& ids) override {
    if (mistake_ == Mistake::kReversed) std::reverse(ids.begin(), ids.end());
    if (mistake_ == Mistake::kSorted) std::sort(ids.begin(), ids.end());
    if (mistake_ == Mistake::kRepeated) ids.back() = ids.front();
  }

 private:
  Mistake mistake_;
};

/// The samples keep their ids and have another content.
class ContentWrong : public LastingFault {
 public:
  using Mistake = recipe::ContentWrongMistake;

  explicit ContentWrong(const Json& options)
      : mistake_(recipe::kind_at<Mistake>(options, "mistake")),
        factor_(options.at("factor").get<double>()),
        sample_(options.at("sample").get<std::int64_t>()) {}

  void content(const std::vector<std::int64_t>& ids, Samples& batch) override {
    if (mistake_ == Mistake::kLabelsRolled) batch.y = batch.y.roll(1, 0);
    if (mistake_ == Mistake::kInputsRolled) batch.x = batch.x.roll(1, 0);
    if (mistake_ != Mistake::kScaled) return;
    if (sample_ < 0) batch.x = batch.x * factor_;
    for (std::size_t i = 0; i < ids.size() && sample_ >= 0; ++i) {
      if (ids[i] != sample_) continue;
      batch.x = batch.x.clone();
      batch.x[static_cast<std::int64_t>(i)].mul_(factor_);
    }
  }

 private:
  Mistake mistake_;
  double factor_;
  std::int64_t sample_;
};

class ExtraDraw : public Fault {
  void arrive(launch::Phase phase, Collective&) override {
    if (phase == launch::Phase::kForward) at::empty({}, at::kLong).random_();
  }
};

}  // namespace

LOCKSTEP_FAULT(swap_samples, SwapSamples, options)
LOCKSTEP_FAULT(sampler_seed_by_rank, SamplerSeedByRank)
LOCKSTEP_FAULT(sampler_wrong, SamplerWrong, options)
LOCKSTEP_FAULT(share_of_rank, ShareOfRank, options)
LOCKSTEP_FAULT(drop_last_wrong, DropLastWrong)
LOCKSTEP_FAULT(sample_order_wrong, SampleOrderWrong, options)
LOCKSTEP_FAULT(content_wrong, ContentWrong, options)
LOCKSTEP_FAULT(extra_draw, ExtraDraw)

}  // namespace lockstep::train
