#include <algorithm>
#include <map>

#include "harness/laws/law.h"
#include "harness/laws/promise.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using Ids = std::vector<std::int64_t>;

/// What one rank took, epoch by epoch.
struct TakenByRank {
  std::vector<Ids> epochs;
  std::vector<std::vector<std::int64_t>> steps;  ///< of each id
};

TakenByRank taken_by(const trace::Trace& rank, std::int64_t each) {
  TakenByRank taken;
  for (const trace::Step& step : rank.steps) {
    const trace::Record* ids = step.find(Channel::kSamples, "ids");
    if (ids == nullptr) continue;
    for (const std::int64_t id : ids->integers) {
      if (taken.epochs.empty() || static_cast<std::int64_t>(taken.epochs.back().size()) == each) {
        taken.epochs.emplace_back();
        taken.steps.emplace_back();
      }
      taken.epochs.back().push_back(id);
      taken.steps.back().push_back(step.step);
    }
  }
  return taken;
}

/// A run's samples against the order of its sampler.
class Orders {
 public:
  Orders(const trace::RunTrace& run, const scenario::Promises& promises, const Promise& promise)
      : promises_(promises), promise_(promise), micro_(promises.train.batch.micro_size(promises.world_size)) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
      taken_.push_back(taken_by(run.ranks[rank], promise.each[rank]));
  }

  Outcome judge() const {
    Outcome outcome;
    for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
      for (std::size_t epoch = 0; epoch < taken_[rank].epochs.size(); ++epoch) {
        const Ids& taken = taken_[rank].epochs[epoch];
        const Ids expected = order_of(promises_.train, promises_.world_size, promise_.samples, which(rank, epoch));
        const std::size_t place = first_apart(taken, expected);
        outcome.judged += taken.size();
        if (place == taken.size()) continue;
        const std::int64_t step = taken_[rank].steps[epoch][place];
        if (outcome.broken && outcome.broken->at.step <= step) break;
        outcome.broken =
            Breach{.at = {step, Channel::kSamples, "ids", static_cast<std::int64_t>(rank)},
                   .expected = (place < expected.size() ? "sample " + std::to_string(expected[place]) : "no sample") +
                               " at place " + std::to_string(place) + " of epoch " + std::to_string(epoch),
                   .actual = "sample " + std::to_string(taken[place])};
        name_cause(*outcome.broken, epoch);
        break;
      }
    }
    return outcome;
  }

 private:
  static std::size_t first_apart(const Ids& taken, const Ids& expected) {
    const std::size_t both = std::min(taken.size(), expected.size());
    const auto end = taken.begin() + static_cast<std::ptrdiff_t>(both);
    return static_cast<std::size_t>(std::mismatch(taken.begin(), end, expected.begin()).first - taken.begin());
  }

  recipe::OrderOf which(std::size_t rank, std::size_t epoch) const {
    const std::int64_t each = promise_.each[rank];
    return {.rank = static_cast<std::int64_t>(rank),
            .epoch = static_cast<std::int64_t>(epoch),
            .batches = static_cast<std::int64_t>(epoch) * ((each + micro_ - 1) / micro_)};
  }

  /// Whether all ranks follow another order in this epoch, in enough samples to tell.
  template <typename Change>
  bool follow(std::size_t epoch, Change change) const {
    std::size_t same = 0;
    for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
      if (epoch >= taken_[rank].epochs.size()) continue;
      const Ids& taken = taken_[rank].epochs[epoch];
      recipe::OrderOf other = which(rank, epoch);
      change(other);
      if (first_apart(taken, order_of(promises_.train, promises_.world_size, promise_.samples, other)) < taken.size())
        return false;
      same += taken.size();
    }
    return same >= recipe::kFewInOrder;
  }

  void name_cause(Breach& breach, std::size_t epoch) const {
    const std::uint64_t seed = promises_.train.sampler.options.value("seed", std::uint64_t{0});
    const std::string of = "in epoch " + std::to_string(epoch) + " all ranks have ";
    if (epoch > 0 && promise_.reshuffles &&
        follow(epoch, [](recipe::OrderOf& order) { order.epoch = order.batches = 0; })) {
      breach.cause = "data.epoch_not_advanced";
      breach.evidence = of + "the order of epoch 0";
    } else if (follow(epoch, [](recipe::OrderOf& order) { order.sharded = false; })) {
      breach.cause = promises_.world_size > 1 ? "data.not_sharded" : "";
      breach.evidence = of + "the order of one rank alone";
    } else if (follow(epoch,
                      [&](recipe::OrderOf& order) { order.seed = seed + static_cast<std::uint64_t>(order.rank); })) {
      breach.cause = promises_.world_size > 1 ? "data.permutation_rank_dependent" : "";
      breach.evidence = of + "the order of the seed " + std::to_string(seed) + " + rank";
    } else if (seed != 0 && follow(epoch, [](recipe::OrderOf& order) { order.seed = 0; })) {
      breach.cause = "data.seed_ignored";
      breach.evidence = of + "the order of the seed 0, and not of " + std::to_string(seed);
    }
  }

  const scenario::Promises& promises_;
  const Promise& promise_;
  std::int64_t micro_;
  std::vector<TakenByRank> taken_;
};

}  // namespace

std::string no_order_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return "the seed of this program's sampler is not promised";
  if (std::string reason = no_data_asked(run, promises); !reason.empty()) return reason;
  return recipe::no_known_order(promises.train.sampler);
}

/// *Source*: torch.utils.data.DistributedSampler.__iter__, PyTorch 2.11.
Outcome judge_order(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.train.record.every != 1) return cannot_tell("not every step is recorded");
  const std::int64_t samples = samples_of(run, promises);
  if (samples < 1) return cannot_tell("the run does not record the number of samples");
  const std::optional<Promise> promise = promise_of(promises, samples);
  if (!promise || !promise->usable()) return cannot_tell("there are too little data for this sampler");
  return Orders(run, promises, *promise).judge();
}

}  // namespace lockstep::laws
