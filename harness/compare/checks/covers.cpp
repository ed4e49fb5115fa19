#include <algorithm>
#include <map>
#include <set>

#include "harness/base/text.h"
#include "harness/compare/check.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// One sample as a rank took it.
struct Taken {
  std::int64_t id = 0;
  std::int64_t step = 0;
};

/// What a sampler promises for one epoch.
struct Promise {
  std::int64_t samples = 0;  ///< in the data set
  std::int64_t each = 0;     ///< taken by each rank
  std::int64_t least = 0;    ///< times that a sample is taken
  std::int64_t most = 0;
  bool reshuffles = false;   ///< another order in every epoch
};

Promise promise_of(const scenario::Variant& variant, std::int64_t samples) {
  const Json& options = variant.train.sampler.options;
  const std::int64_t world = variant.world_size;
  Promise promise{.samples = samples, .reshuffles = options.at("shuffle").get<bool>()};
  if (variant.train.sampler.kind == "none") {
    promise.each = samples;
    promise.least = promise.most = world;
  } else if (options.at("drop_last").get<bool>()) {
    promise.each = samples / world;
    promise.least = samples % world == 0 ? 1 : 0;
    promise.most = 1;
  } else {
    promise.each = (samples + world - 1) / world;
    promise.least = promise.each * world / samples;
    promise.most = (promise.each * world + samples - 1) / samples;
  }
  return promise;
}

std::vector<Taken> taken_by(const trace::Trace& rank) {
  std::vector<Taken> taken;
  for (const trace::Step& step : rank.steps) {
    if (const trace::Record* ids = step.find(Channel::kSamples, "ids")) {
      for (const std::int64_t id : ids->integers) taken.push_back({id, step.step});
    }
  }
  return taken;
}

CheckResult violation(const trace::RunTrace& run, std::int64_t step, std::int64_t rank, std::string expected, std::string actual, std::string cause) {
  return {.status = CheckResult::Status::kDivergence,
          .divergence = Divergence{.step = step, .channel = Channel::kSamples, .tensor = "ids", .rank = rank, .left = "sampler's promise", .right = run.run, .expected = std::move(expected), .actual = std::move(actual), .class_ = "semantic", .cause = std::move(cause)}};
}

/// The samples of all ranks, cut into epochs.
class Coverage {
 public:
  Coverage(const trace::RunTrace& run, const Promise& promise) : run_(run), promise_(promise) {
    for (const trace::Trace& rank : run.ranks) taken_.push_back(taken_by(rank));
    epochs_ = promise.each == 0 ? 0 : static_cast<std::int64_t>(taken_[0].size()) / promise.each;
    for (const auto& of_rank : taken_) epochs_ = std::min(epochs_, promise.each == 0 ? 0 : static_cast<std::int64_t>(of_rank.size()) / promise.each);
  }

  CheckResult judge() const {
    CheckResult result;
    if (epochs_ == 0) {
      return {.status = CheckResult::Status::kInconclusive, .why = run_.run + " did not finish an epoch", .next = "raise train.steps, or use less data"};
    }
    for (std::int64_t epoch = 0; epoch < epochs_; ++epoch) {
      combine(result, judge_epoch(epoch));
      if (epoch > 0) combine(result, judge_order(epoch));
    }
    return result;
  }

 private:
  const Taken& at(std::int64_t epoch, std::size_t rank, std::int64_t i) const { return taken_[rank][static_cast<std::size_t>(epoch * promise_.each + i)]; }

  CheckResult judge_epoch(std::int64_t epoch) const {
    std::map<std::int64_t, std::int64_t> times;
    for (std::int64_t i = 0; i < promise_.each; ++i) {
      for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
        const Taken& taken = at(epoch, rank, i);
        if (taken.id >= 0 && taken.id < promise_.samples && ++times[taken.id] <= promise_.most) continue;
        return violation(run_, taken.step, static_cast<std::int64_t>(rank), "every sample at most " + std::to_string(promise_.most) + " times in epoch " + std::to_string(epoch), "sample " + std::to_string(taken.id) + " once more", "a sample is taken too often: padding, a rank's shard given twice, or a sampler without ranks");
      }
    }
    std::int64_t missing = 0, first = -1;
    for (std::int64_t id = 0; id < promise_.samples; ++id) {
      const auto found = times.find(id);
      if ((found == times.end() ? 0 : found->second) >= promise_.least) continue;
      if (missing++ == 0) first = id;
    }
    if (missing > 0) return violation(run_, at(epoch, 0, promise_.each - 1).step, 0, "every sample at least " + std::to_string(promise_.least) + " times in epoch " + std::to_string(epoch), std::to_string(missing) + " samples less often, the first is " + std::to_string(first), "samples are left out");
    return {.compared = static_cast<std::size_t>(promise_.samples)};
  }

  /// An author who forgets set_epoch gets the first epoch's order for ever; no count can show that.
  CheckResult judge_order(std::int64_t epoch) const {
    constexpr std::int64_t kTooFewToTell = 10;
    if (!promise_.reshuffles || promise_.each < kTooFewToTell) return {};
    for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
      bool same = true;
      for (std::int64_t i = 0; i < promise_.each && same; ++i) same = at(epoch, rank, i).id == at(epoch - 1, rank, i).id;
      if (same) return violation(run_, at(epoch, rank, 0).step, static_cast<std::int64_t>(rank), "another order than in epoch " + std::to_string(epoch - 1), "the same order", "set_epoch is not called: every epoch has the order of the first");
    }
    return {.compared = 1};
  }

  const trace::RunTrace& run_;
  const Promise& promise_;
  std::vector<std::vector<Taken>> taken_;
  std::int64_t epochs_ = 0;
};

}  // namespace

CheckResult check_covers(const CheckInput& input) {
  CheckResult total;
  for (const std::string& name : input.spec.variants) {
    const scenario::Variant& variant = input.scenario.variant(name);
    const auto& recorded = variant.train.record.channels;
    const bool all_samples = variant.train.record.every == 1 && std::find(recorded.begin(), recorded.end(), "samples") != recorded.end() && !variant.train.checkpoint.load;
    for (const trace::RunTrace* const repeat : input.of(name)) {
      const trace::RunTrace& run = *repeat;
      if (!all_samples) {
        combine(total, {.status = CheckResult::Status::kInconclusive, .why = "'" + name + "' does not record the samples of every step from the first", .next = "record the channel 'samples' at every step, in a variant that does not resume"});
        continue;
      }
      const Promise promise = promise_of(variant, run.ranks[0].header.value("samples", std::int64_t{0}));
      combine(total, Coverage(run, promise).judge());
    }
  }
  return total;
}

}  // namespace lockstep::compare
