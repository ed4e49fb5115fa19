#include <algorithm>
#include <map>

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
  bool by_rank = false;     ///< the promise is of each rank alone, not of all together
  bool reshuffles = false;  ///< another order in every epoch
};

/// *Shape*: `samples` > 0.
Promise promise_of(const scenario::Variant& variant, std::int64_t samples) {
  const Json& options = variant.train.sampler.options;
  const std::int64_t world = variant.world_size;
  Promise promise{.samples = samples, .reshuffles = options.at("shuffle").get<bool>()};
  if (variant.train.sampler.kind == "none") {
    promise.each = samples;
    promise.least = promise.most = 1;
    promise.by_rank = true;
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

/// Fewer ids than this come in the same order twice by chance, now and then.
constexpr std::int64_t kTooFewToTell = 10;

/// The samples of all ranks, cut into epochs.
class Coverage {
 public:
  Coverage(const trace::RunTrace& run, const Promise& promise) : run_(run), promise_(promise) {
    for (const trace::Trace& rank : run.ranks) taken_.push_back(taken_by(rank));
    for (const auto& of_rank : taken_) shortest_ = std::min(shortest_, of_rank.size());
  }

  CheckResult judge() const {
    if (promise_.each == 0)
      return {.status = CheckResult::Status::kInconclusive,
              .why = run_.run + ": the sampler promises nothing for so little data",
              .next = "use more data, or fewer ranks"};
    const CheckResult shares = judge_shares();
    CheckResult result;
    const std::int64_t epochs = static_cast<std::int64_t>(shortest_) / promise_.each;
    for (std::int64_t epoch = 0; epoch <= epochs && !result.divergence; ++epoch) {
      combine(result, judge_epoch(epoch, /*finished=*/epoch < epochs));
      if (epoch > 0 && epoch < epochs) combine(result, judge_order(epoch));
    }
    if (shares.divergence && (!result.divergence || shares.divergence->step <= result.divergence->step)) return shares;
    if (epochs == 0 && !result.divergence)
      return {.status = CheckResult::Status::kInconclusive,
              .why = run_.run + " did not finish an epoch",
              .next = "raise train.steps, or use less data"};
    return result;
  }

 private:
  static std::vector<Taken> taken_by(const trace::Trace& rank) {
    std::vector<Taken> taken;
    for (const trace::Step& step : rank.steps) {
      const trace::Record* ids = step.find(Channel::kSamples, "ids");
      if (ids == nullptr) continue;
      for (const std::int64_t id : ids->integers) taken.push_back({id, step.step});
    }
    return taken;
  }

  CheckResult violation(std::int64_t step, std::size_t rank, std::string expected, std::string actual,
                        std::string cause) const {
    return {.status = CheckResult::Status::kDivergence,
            .divergence = Divergence{.step = step,
                                     .channel = Channel::kSamples,
                                     .tensor = "ids",
                                     .rank = static_cast<std::int64_t>(rank),
                                     .left = "sampler's promise",
                                     .right = run_.run,
                                     .expected = std::move(expected),
                                     .actual = std::move(actual),
                                     .class_ = "semantic",
                                     .cause = std::move(cause)}};
  }

  const Taken& at(std::int64_t epoch, std::size_t rank, std::int64_t i) const {
    return taken_[rank][static_cast<std::size_t>(epoch * promise_.each + i)];
  }

  /// Samples of one rank in an epoch, which may be the last, unfinished one.
  std::int64_t length(std::int64_t epoch) const {
    return std::min(promise_.each, static_cast<std::int64_t>(shortest_) - epoch * promise_.each);
  }

  /// Every sampler gives all ranks equally many samples in every step.
  CheckResult judge_shares() const {
    for (std::size_t i = 0; i < run_.ranks[0].steps.size(); ++i) {
      const trace::Step& step = run_.ranks[0].steps[i];
      const trace::Record* first = step.find(Channel::kSamples, "ids");
      for (std::size_t rank = 1; rank < run_.ranks.size(); ++rank) {
        const trace::Step* other = run_.ranks[rank].find(step.step);
        const trace::Record* ids = other == nullptr ? nullptr : other->find(Channel::kSamples, "ids");
        const std::size_t expected = first == nullptr ? 0 : first->integers.size(),
                          actual = ids == nullptr ? 0 : ids->integers.size();
        if (expected != actual)
          return violation(step.step, rank, std::to_string(expected) + " samples, as rank 0",
                           std::to_string(actual) + " samples", "the ranks take unequal shares");
      }
    }
    return {};
  }

  CheckResult judge_epoch(std::int64_t epoch, bool finished) const {
    std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> times;  // by rank where the promise is, and id
    const auto place = [&](std::size_t rank, std::int64_t id) { return std::pair(promise_.by_rank ? rank : 0, id); };
    for (std::int64_t i = 0; i < length(epoch); ++i) {
      for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
        const Taken& taken = at(epoch, rank, i);
        const std::string actual = "sample " + std::to_string(taken.id);
        if (taken.id < 0 || taken.id >= promise_.samples)
          return violation(taken.step, rank, "samples 0 to " + std::to_string(promise_.samples - 1), actual,
                           "there is no such sample");
        if (++times[place(rank, taken.id)] > promise_.most)
          return violation(
              taken.step, rank,
              "every sample at most " + std::to_string(promise_.most) + " times in epoch " + std::to_string(epoch),
              actual + " once more",
              "a sample is taken too often: padding, a rank's shard given twice, or a sampler without ranks");
      }
    }
    if (!finished) return {};
    for (std::size_t rank = 0; rank < (promise_.by_rank ? taken_.size() : 1); ++rank) {
      std::vector<std::int64_t> missing;
      for (std::int64_t id = 0; id < promise_.samples; ++id) {
        const auto found = times.find(place(rank, id));
        if ((found == times.end() ? 0 : found->second) < promise_.least) missing.push_back(id);
      }
      if (!missing.empty())
        return violation(
            at(epoch, rank, promise_.each - 1).step, rank,
            "every sample at least " + std::to_string(promise_.least) + " times in epoch " + std::to_string(epoch),
            std::to_string(missing.size()) + " samples less often, the first is " + std::to_string(missing[0]),
            "samples are left out");
    }
    return {.compared = static_cast<std::size_t>(promise_.samples)};
  }

  /// An author who forgets set_epoch gets the first epoch's order for ever; no count can show that.
  CheckResult judge_order(std::int64_t epoch) const {
    if (!promise_.reshuffles) return {};
    std::size_t same = 0, first = 0;
    for (std::size_t rank = taken_.size(); rank-- > 0;) {
      bool equal = true;
      for (std::int64_t i = 0; i < promise_.each && equal; ++i)
        equal = at(epoch, rank, i).id == at(epoch - 1, rank, i).id;
      same += equal ? 1 : 0;
      if (equal) first = rank;
    }
    const std::int64_t together = promise_.each * static_cast<std::int64_t>(taken_.size());
    const bool tells = promise_.each >= kTooFewToTell ? same > 0 : same == taken_.size() && together >= kTooFewToTell;
    if (tells)
      return violation(at(epoch, first, 0).step, first, "another order than in epoch " + std::to_string(epoch - 1),
                       "the same order", "set_epoch is not called: every epoch has the order of the first");
    return {.compared = 1};
  }

  const trace::RunTrace& run_;
  const Promise& promise_;
  std::vector<std::vector<Taken>> taken_;
  std::size_t shortest_ = static_cast<std::size_t>(-1);
};

CheckResult judge_run(const trace::RunTrace& run, const scenario::Variant& variant) {
  const auto& recorded = variant.train.record.channels;
  const bool all_samples = variant.train.record.every == 1 &&
                           std::find(recorded.begin(), recorded.end(), "samples") != recorded.end() &&
                           !variant.train.checkpoint.load;
  if (!all_samples)
    return {.status = CheckResult::Status::kInconclusive,
            .why = "'" + variant.name + "' does not record the samples of every step from the first",
            .next = "record the channel 'samples' at every step, in a variant that does not resume"};
  const std::int64_t samples = run.ranks[0].header.value("samples", std::int64_t{0});
  if (samples < 1)
    return {.status = CheckResult::Status::kInconclusive,
            .why = run.run + " does not say how many samples its data have"};
  const Promise promise = promise_of(variant, samples);
  return Coverage(run, promise).judge();
}

}  // namespace

CheckResult check_covers(const CheckInput& input) {
  CheckResult total;
  for (const std::string& name : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(name))
      combine(total, judge_run(*repeat, input.scenario.variant(name)));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::compare
