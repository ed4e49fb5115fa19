#include "harness/diagnosis/samples_causes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "harness/laws/contents.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using trace::Channel;

const Ids* ids_in(const trace::Step& step) {
  const trace::Record* ids = laws::samples_in(step);
  return ids == nullptr || ids->integers.empty() ? nullptr : &ids->integers;
}

/// One rank's samples, on their way into epochs.
class Cutter {
 public:
  Cutter(std::map<std::int64_t, Epoch>& epochs, std::size_t ranks, std::size_t rank, std::int64_t each, bool straddles)
      : epochs_(epochs), ranks_(ranks), rank_(rank), each_(each), straddles_(straddles) {}

  /// Whether the epoch of the step is known.
  bool take(const trace::Step& step, const Ids& ids) {
    const trace::Record* entry = step.find(Channel::kLedger, trace::entry::kPasses);
    if (entry == nullptr) entry = step.find(Channel::kLedger, trace::entry::kEpoch);
    const bool told = entry != nullptr && entry->integers.size() == 1;
    if (!told && each_ == 0) return false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t counted = each_ > 0 ? total_ / each_ : 0;
      // With accumulation, an update may take the last samples of one epoch and the first of the next.
      const bool of_before = straddles_ && told && each_ > 0 && counted < entry->integers[0] && counted == current_;
      current_ = told && !of_before ? entry->integers[0] : counted;
      add(step.step, ids[i]);
      ++total_;
    }
    return true;
  }

 private:
  void add(std::int64_t step, std::int64_t id) {
    const auto [found, is_new] = epochs_.try_emplace(current_);
    Epoch& epoch = found->second;
    if (is_new) {
      epoch = {.number = current_, .first_step = step, .last_step = step, .ids = {}, .steps = {}, .whole = false};
      epoch.ids.resize(ranks_);
      epoch.steps.resize(ranks_);
    }
    epoch.first_step = std::min(epoch.first_step, step);
    epoch.last_step = std::max(epoch.last_step, step);
    epoch.ids[rank_].push_back(id);
    epoch.steps[rank_].push_back(step);
  }

  std::map<std::int64_t, Epoch>& epochs_;
  std::size_t ranks_, rank_;
  std::int64_t each_;
  bool straddles_;
  std::int64_t current_ = 0, total_ = 0;
};

}  // namespace

std::int64_t Epoch::taken() const {
  return std::accumulate(ids.begin(), ids.end(), std::int64_t{0},
                         [](std::int64_t sum, const Ids& own) { return sum + static_cast<std::int64_t>(own.size()); });
}

std::int64_t samples_in_data(const trace::RunTrace& run) {
  return run.ranks.empty() ? 0 : laws::samples_in(run.ranks[0]);
}

std::optional<laws::Promise> promise_for(const trace::RunTrace& run, const scenario::Promises& promises) {
  const std::int64_t samples = samples_in_data(run);
  // A run of another number of ranks than its recipe says holds another promise: none that is known.
  if (samples < 1 || promises.world_size != run.world_size()) return std::nullopt;
  auto promise = laws::promise_of(promises, samples);
  return promise && promise->usable() ? promise : std::nullopt;
}

std::vector<Epoch> epochs_of(const trace::RunTrace& run, const scenario::Promises& promises) {
  const auto promise = promise_for(run, promises);
  const bool resumed = promises.train.checkpoint.load.has_value();
  std::map<std::int64_t, Epoch> epochs;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    // What a resumed run took of its first epoch is not known from the promise.
    Cutter cutter(epochs, run.ranks.size(), rank, promise && !resumed ? promise->each[rank] : 0,
                  promises.train.batch.accumulation > 1);
    for (const trace::Step& step : run.ranks[rank].steps) {
      const Ids* ids = ids_in(step);
      if (ids != nullptr && !cutter.take(step, *ids)) return {};
    }
  }
  std::vector<Epoch> all;
  for (auto& [number, epoch] : epochs) all.push_back(std::move(epoch));
  const bool every_step = promises.train.record.every == 1;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) all[i].whole = every_step && (i > 0 || all[i].first_step == 0);
  return all;
}

const Epoch* epoch_at(const std::vector<Epoch>& epochs, std::int64_t step) {
  for (const Epoch& epoch : epochs) {
    if (epoch.first_step <= step && step <= epoch.last_step) return &epoch;
  }
  return nullptr;
}

std::vector<Ids> ids_by_rank(const trace::RunTrace& run, std::int64_t step) {
  std::vector<Ids> all;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* found = rank.find(step);
    const Ids* ids = found == nullptr ? nullptr : ids_in(*found);
    all.push_back(ids == nullptr ? Ids{} : *ids);
  }
  return all;
}

Ids global_batch_of(const trace::RunTrace& run, std::int64_t step) {
  Ids all;
  const std::vector<Ids> by_rank = ids_by_rank(run, step);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (trace::is_first_of_share(run, rank)) all.insert(all.end(), by_rank[rank].begin(), by_rank[rank].end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::int64_t distinct(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return std::unique(ids.begin(), ids.end()) - ids.begin();
}

std::string some_ids(const Ids& ids) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(ids.size(), 4);
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + std::to_string(ids[i]);
  return ids.size() > shown ? text + " and " + std::to_string(ids.size() - shown) + " more" : text;
}

}  // namespace lockstep::diagnosis
