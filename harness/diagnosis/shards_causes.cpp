#include "harness/diagnosis/shards_causes.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/text.h"
#include "harness/diagnosis/samples_causes.h"
#include "harness/laws/contents.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// Fewer ids than this are taken twice, or come in the same order twice, by one exchange or by chance.
constexpr std::int64_t kFewRepeats = 3;
constexpr std::size_t kFewShuffled = 10;

/// Orders that have nothing to do with each other share far more of their slices than this.
constexpr double kLeastShared = 0.05;

/// Least part of the repeats that independent orders are expected to have.
constexpr double kLeastOfExpected = 0.65;

/// The shares of one epoch.
class Shares {
 public:
  Shares(const trace::RunTrace& run, const scenario::Promises& promises, const Epoch& epoch)
      : run_(run), variant_(promises), epoch_(epoch), promise_(promise_for(run, promises)) {
    for (std::size_t rank = 0; rank < epoch.ids.size(); ++rank) {
      for (std::size_t i = 0; i < epoch.ids[rank].size(); ++i) {
        std::set<std::size_t>& takers = takers_[epoch.ids[rank][i]];
        if (!takers.empty() && !takers.contains(rank)) {
          ++repeats_;
          steps_of_repeats_.insert(epoch.steps[rank][i]);
        }
        takers.insert(rank);
      }
    }
  }

  std::vector<Suspect> suspects() const {
    if (const auto ranks = alike(); !ranks.empty()) {
      const Ids& ids = epoch_.ids[0];
      const bool repeats = distinct(ids) + padding() < static_cast<std::int64_t>(ids.size());
      if (ranks.size() < epoch_.ids.size() || repeats) return {};  // some have shares, or it is no share: unknown
      if (are_one_share(ids) || (variant_.known && laws::have_ids_of_their_own(run_))) return {};
      return {{"data.not_sharded",
               {place() + ", from step " + std::to_string(epoch_.first_step) + " on: ranks " + listed(ranks) +
                " take the same " + std::to_string(ids.size()) + " samples in the same order: " + some_ids(ids)}}};
    }
    if (auto whole = takes_everything(); !whole.empty()) return {{"data.not_sharded", whole}};
    if (!overlaps()) return {};
    if (promise_ && promise_->by_rank) return {{"data.not_sharded", overlap()}};
    if (takes_what_nobody_may() || !are_independent()) return {};
    return {{"data.permutation_rank_dependent", overlap()}};
  }

 private:
  std::string place() const { return "epoch " + std::to_string(epoch_.number) + " of " + run_.run; }

  /// Samples that may come twice in an epoch, because shares are filled up.
  std::int64_t padding() const {
    if (!promise_ || promise_->by_rank) return 0;
    std::int64_t promised = 0;
    for (const std::int64_t each : promise_->each) promised += each;
    return std::max<std::int64_t>(promised - (promise_->samples - promise_->first), 0);
  }

  /// The most ranks that take the same samples in the same order, more than fill the shares up.
  std::vector<std::size_t> alike() const {
    std::map<Ids, std::vector<std::size_t>> ranks;
    for (std::size_t rank = 0; rank < epoch_.ids.size(); ++rank) ranks[epoch_.ids[rank]].push_back(rank);
    std::vector<std::size_t> most;
    for (const auto& [ids, takers] : ranks) {
      if (takers.size() > std::max<std::size_t>(most.size(), 1) && static_cast<std::int64_t>(ids.size()) > padding())
        most = takers;
    }
    return most;
  }

  /// Whether these ids are what the sampler gives one rank of several: it knows of ranks, and takes them for one. A
  /// sampler that gives all ranks the same knows of none.
  bool are_one_share(const Ids& ids) const {
    const recipe::SamplerChoice& sampler = variant_.train.sampler;
    if (variant_.known || !promise_ || ids.size() < recipe::kFewInOrder || !recipe::no_known_order(sampler).empty())
      return false;
    const auto share_of = [&](std::int64_t rank) {
      return recipe::order_of(variant_.train, variant_.world_size, promise_->samples,
                              {.rank = rank, .epoch = epoch_.number});
    };
    if (share_of(0) == share_of(1)) return false;
    for (std::int64_t rank = 0; rank < run_.world_size(); ++rank) {
      const Ids share = share_of(rank);
      if (share.size() >= ids.size() && std::equal(ids.begin(), ids.end(), share.begin())) return true;
    }
    return false;
  }

  /// What one rank may take of an epoch, if it is one of several.
  std::int64_t share() const {
    const std::int64_t world = run_.world_size(), micro = variant_.train.batch.micro_size(variant_.world_size);
    const std::int64_t even = (samples_in_data(run_) + world - 1) / world + micro;
    if (!promise_ || promise_->by_rank) return even;
    return std::max(even, *std::max_element(promise_->each.begin(), promise_->each.end()));
  }

  /// A rank that alone takes more than a share, up to all the data.
  std::vector<std::string> takes_everything() const {
    const std::int64_t samples = samples_in_data(run_);
    if (samples == 0) return {};
    for (std::size_t rank = 0; rank < epoch_.ids.size(); ++rank) {
      const std::int64_t own = distinct(epoch_.ids[rank]);
      if (own <= share() || (epoch_.whole && own < samples - share()) || repeats_ < kFewRepeats) continue;
      return {place() + ": rank " + std::to_string(rank) + " alone takes " + std::to_string(own) + " of the " +
                  std::to_string(samples) + " samples; its share is " + std::to_string(samples / run_.world_size()),
              std::to_string(repeats_) + " times in this epoch a rank takes a sample of another rank"};
    }
    return {};
  }

  /// Whether a rank takes samples before the first one: a permutation holds no such ones.
  bool takes_what_nobody_may() const {
    return promise_ && !takers_.empty() && takers_.begin()->first < promise_->first;
  }

  /// Samples that no rank takes in an epoch that is whole.
  std::int64_t holes() const {
    return epoch_.whole ? samples_in_data(run_) - static_cast<std::int64_t>(takers_.size()) : 0;
  }

  /// Repeats between the ranks, more than padding, one exchange or one batch given twice can make.
  bool overlaps() const {
    const auto beyond = repeats_ - padding();
    return beyond >= kFewRepeats && static_cast<double>(beyond) >= kLeastShared * static_cast<double>(epoch_.taken()) &&
           (steps_of_repeats_.size() > 1 || epoch_.first_step == epoch_.last_step) && !(epoch_.whole && holes() <= 0);
  }

  /// Whether each rank takes nothing twice itself, and the ranks meet as often as shares of independent orders do, from
  /// the first half of the epoch on.
  bool are_independent() const {
    const auto samples = static_cast<double>(samples_in_data(run_));
    double taken = 0, missed = samples;
    for (const Ids& ids : epoch_.ids) {
      if (distinct(ids) + padding() < static_cast<std::int64_t>(ids.size())) return false;
      taken += static_cast<double>(distinct(ids));
      missed *= 1 - static_cast<double>(distinct(ids)) / samples;
    }
    const double expected = taken - (samples - missed);
    return static_cast<double>(repeats_) >= kLeastOfExpected * expected &&
           *steps_of_repeats_.begin() - epoch_.first_step <= (epoch_.last_step - epoch_.first_step) / 2;
  }

  std::vector<std::string> overlap() const {
    std::vector<std::string> evidence{
        place() + ": " + std::to_string(repeats_) + " of " + std::to_string(epoch_.taken()) +
        " times a rank takes a sample of another rank, in " + std::to_string(steps_of_repeats_.size()) +
        " steps; padding explains " + std::to_string(padding())};
    if (epoch_.whole)
      evidence.push_back(std::to_string(holes()) + " of " + std::to_string(samples_in_data(run_)) +
                         " samples are taken by no rank");
    for (std::size_t rank = 0; rank < epoch_.ids.size(); ++rank) {
      if (distinct(epoch_.ids[rank]) != static_cast<std::int64_t>(epoch_.ids[rank].size())) return evidence;
    }
    evidence.emplace_back("no rank takes a sample twice: each follows its own order");
    return evidence;
  }

  const trace::RunTrace& run_;
  const scenario::Promises& variant_;
  const Epoch& epoch_;
  std::optional<laws::Promise> promise_;
  std::map<std::int64_t, std::set<std::size_t>> takers_;  ///< ranks by id of a sample
  std::set<std::int64_t> steps_of_repeats_;
  std::int64_t repeats_ = 0;  ///< times that a rank takes what another has taken
};

/// Whether one begins with the other, and that is long enough to tell an order.
std::size_t in_same_order(const Ids& a, const Ids& b) {
  const std::size_t length = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin()) ? length : 0;
}

}  // namespace

std::vector<Suspect> suspects_in_shards(const trace::RunTrace& run, const scenario::Promises& promises,
                                        std::int64_t step) {
  if (run.world_size() < 2) return {};
  const std::vector<Epoch> epochs = epochs_of(run, promises);
  const Epoch* epoch = epoch_at(epochs, step);
  return epoch == nullptr ? std::vector<Suspect>{} : Shares(run, promises, *epoch).suspects();
}

std::vector<Suspect> suspects_in_epochs(const trace::RunTrace& run, const scenario::Promises& promises,
                                        std::int64_t step) {
  const auto promise = promise_for(run, promises);
  if (!promise || !promise->reshuffles || promises.train.checkpoint.load) return {};
  const std::vector<Epoch> epochs = epochs_of(run, promises);
  const Epoch* epoch = epoch_at(epochs, step);
  if (epoch == nullptr || epoch->number == 0 || epochs.front().number != 0) return {};
  std::vector<std::string> alike;
  std::string first_order;
  std::size_t ids = 0;
  for (std::size_t rank = 0; rank < epoch->ids.size(); ++rank) {
    const Ids& first = epochs.front().ids[rank];
    if (std::is_sorted(first.begin(), first.end())) return {};  // that one was not shuffled either
    const std::size_t same = in_same_order(epoch->ids[rank], first);
    const bool stays = std::all_of(epochs.begin(), epochs.end(), [&](const Epoch& later) {
      return later.number < epoch->number || later.ids[rank].empty() || in_same_order(later.ids[rank], first) > 0;
    });
    if (same > 0 && !stays) return {};
    if (same > 0 && alike.empty()) first_order = some_ids(epoch->ids[rank]);
    if (same > 0) alike.push_back(std::to_string(rank));
    ids += same;
  }
  if (alike.empty() || ids < kFewShuffled) return {};
  return {{"data.epoch_not_advanced",
           {run.run + ", step " + std::to_string(epoch->first_step) + ": epoch " + std::to_string(epoch->number) +
                " of rank " + join(alike, ", ") + " has the order of epoch 0: " + first_order,
            std::to_string(ids) + " samples in a row are the same, although the sampler reshuffles each epoch"}}};
}

}  // namespace lockstep::diagnosis
