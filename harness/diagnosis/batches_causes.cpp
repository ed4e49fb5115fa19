#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/samples_causes.h"
#include "harness/laws/contents.h"
#include "harness/recipe/sampler_rule.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// Samples of all ranks in the first update that was recorded, by their ids, else by the ledger's counter.
struct FirstBatch {
  std::int64_t step = 0, samples = 0;
};

FirstBatch first_batch(const trace::RunTrace& run) {
  for (const trace::Step& step : run.ranks[0].steps) {
    if (step.step < 0) continue;
    FirstBatch batch{.step = step.step, .samples = static_cast<std::int64_t>(global_batch_of(run, step.step).size())};
    const trace::Record* taken = step.find(Channel::kLedger, trace::entry::kSamplesTaken);
    if (batch.samples == 0 && step.step == 0 && taken != nullptr && taken->integers.size() == 1)
      batch.samples = taken->integers[0] * run.world_size();
    if (batch.samples > 0) return batch;
  }
  return {};
}

/// An epoch of one side, as far as its tail tells: what was taken, or is promised.
struct Tail {
  std::string name;
  std::int64_t ranks = 0, taken = 0, distinct = 0, samples = 0, largest_batch = 0, last_step = 0;
  bool full_before_end = true;  ///< no batch but the last one is short

  std::int64_t twice() const { return taken - distinct; }
  std::int64_t left_out() const { return samples - distinct; }

  /// Whether the tail was dropped or filled up, and nothing else: by the loader to whole batches, or by the sampler to
  /// equal shares.
  bool is_even() const {
    const std::int64_t rest = taken - samples;
    return full_before_end && (taken % largest_batch == 0 || (taken % ranks == 0 && -ranks < rest && rest < ranks));
  }
};

/// The epoch that the sides are in where they part: the earlier one, if one of them is further.
std::optional<std::int64_t> common_epoch(const std::vector<Epoch>& left, const std::vector<Epoch>& right,
                                         std::int64_t step) {
  const Epoch* a = epoch_at(left, step);
  const Epoch* b = epoch_at(right, step);
  if (a == nullptr || b == nullptr) return std::nullopt;
  return std::min(a->number, b->number);
}

/// Whether the batches of an epoch are full, but the last one, and the one in which another epoch ended.
bool full_before_end(const trace::RunTrace& run, const std::vector<Epoch>& epochs, const Epoch& epoch,
                     std::int64_t full) {
  for (const trace::Step& step : run.ranks[0].steps) {
    const bool ends =
        std::any_of(epochs.begin(), epochs.end(), [&](const Epoch& e) { return e.last_step == step.step; });
    if (step.step < epoch.first_step || step.step > epoch.last_step || ends) continue;
    if (static_cast<std::int64_t>(global_batch_of(run, step.step).size()) != full) return false;
  }
  return true;
}

std::optional<Tail> tail_of(const trace::RunTrace& run, const std::vector<Epoch>& epochs, std::int64_t number) {
  for (const Epoch& epoch : epochs) {
    if (epoch.number != number || !epoch.whole) continue;
    const std::int64_t full = first_batch(run).samples;
    Ids all;
    for (const Ids& ids : epoch.ids) all.insert(all.end(), ids.begin(), ids.end());
    return Tail{.name = run.run,
                .ranks = run.world_size(),
                .taken = epoch.taken(),
                .distinct = distinct(std::move(all)),
                .samples = samples_in_data(run),
                .largest_batch = full,
                .last_step = epoch.last_step,
                .full_before_end = full_before_end(run, epochs, epoch, full)};
  }
  return std::nullopt;
}

/// What the recipe promises of an epoch.
std::optional<Tail> promised_tail(const trace::RunTrace& run, const scenario::Promises& promises) {
  const auto promise = promise_for(run, promises);
  if (!promise || promise->by_rank || promise->first != 0) return std::nullopt;
  const std::int64_t taken = std::accumulate(promise->each.begin(), promise->each.end(), std::int64_t{0});
  return Tail{.name = "the sampler's promise",
              .ranks = promises.world_size,
              .taken = taken,
              .distinct = std::min(taken, promise->samples),
              .samples = promise->samples,
              .largest_batch = promises.train.batch.global_size(promises.world_size)};
}

std::string described(const Tail& tail, std::int64_t number) {
  return tail.name + ": " + std::to_string(tail.taken) + " samples in epoch " + std::to_string(number) + ", " +
         std::to_string(tail.left_out()) + " of " + std::to_string(tail.samples) + " left out, " +
         std::to_string(tail.twice()) + " taken twice";
}

std::vector<Suspect> suspects_of_tails(const Tail& left, const Tail& right, std::int64_t number) {
  const std::int64_t round = std::max(left.largest_batch, right.largest_batch);
  if (left.taken == right.taken || std::abs(left.taken - right.taken) >= round) return {};
  if (std::max(left.left_out(), right.left_out()) >= round || std::max(left.twice(), right.twice()) >= round) return {};
  const std::vector<std::string> seen{described(left, number), described(right, number)};
  const auto with = [&](const std::string& more) { return std::vector<std::string>{seen[0], seen[1], more}; };
  const bool drops = left.left_out() != right.left_out();
  const bool fills = left.twice() != right.twice();
  const Tail& dropping = left.left_out() > right.left_out() ? left : right;
  const Tail& filling = left.twice() > right.twice() ? left : right;
  std::vector<Suspect> suspects;
  if (drops && dropping.is_even())
    suspects.push_back({"data.drop_last_mismatch", with(dropping.name + " drops the tail of the epoch")});
  if (fills && filling.is_even())
    suspects.push_back({"data.pad_duplicates", with(filling.name + " fills the tail with repeated samples")});
  return suspects;
}

/// The order in which all ranks together go through an epoch, if they are dealt `turn` samples each in turn.
Ids dealt_in_turns(const Epoch& epoch, std::size_t turn) {
  Ids order;
  for (std::size_t from = 0;; from += turn) {
    for (const Ids& ids : epoch.ids) {
      if (from >= ids.size()) return order;  // the order after a short share is not known
      const std::size_t to = std::min(from + turn, ids.size());
      order.insert(order.end(), ids.begin() + static_cast<std::ptrdiff_t>(from),
                   ids.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
}

/// One way to deal an order out.
struct Dealing {
  std::string way;
  Ids order;  ///< as much of the order as shows, if it was dealt so
};

std::vector<Dealing> dealings_of(const Side& side, const Epoch& epoch) {
  const std::int64_t micro = side.promises->train.batch.micro_size(side.promises->world_size);
  std::vector<Dealing> dealings{{"every " + std::to_string(epoch.ids.size()) + "th sample", dealt_in_turns(epoch, 1)}};
  if (epoch.ids.size() == 1) return {{"all samples", epoch.ids[0]}};
  if (micro > 1) dealings.push_back({"batches in turn", dealt_in_turns(epoch, static_cast<std::size_t>(micro))});
  dealings.push_back({"blocks", epoch.ids[0]});
  return dealings;
}

bool begins_alike(const Ids& a, const Ids& b) {
  const std::size_t length = std::min(a.size(), b.size());
  return length >= recipe::kFewInOrder &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin());
}

Ids sorted_ids(const Epoch& epoch) {
  Ids all;
  for (const Ids& ids : epoch.ids) all.insert(all.end(), ids.begin(), ids.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());  // what fills up the last round may be others
  return all;
}

/// Whether one epoch leaves samples out that the other one takes, more than the end of a share.
bool lacks_samples(const Epoch& left, const Epoch& right) {
  const auto ranks = static_cast<std::ptrdiff_t>(std::max(left.ids.size(), right.ids.size()));
  const auto one = std::ssize(sorted_ids(left)), other = std::ssize(sorted_ids(right));
  return std::abs(one - other) >= ranks;
}

std::vector<Suspect> same_samples_of_other_samplers(const Scene& scene, const Epoch& left, const Epoch& right) {
  const recipe::SamplerKind ours = scene.left.promises->train.sampler.kind;
  const recipe::SamplerKind theirs = scene.right.promises->train.sampler.kind;
  if (ours == theirs || text_of(ours).empty() || text_of(theirs).empty() || !left.whole || !right.whole ||
      sorted_ids(left) != sorted_ids(right))
    return {};
  return {
      {"data.batch_composition",
       {"epoch " + std::to_string(left.number) + ": both sides take the same " + std::to_string(left.taken()) +
            " samples, in other global batches from step " + std::to_string(scene.at.step) + " on",
        "the samplers are " + text_of(ours) + " and " + text_of(theirs) + ", which order the data in their own ways"}}};
}

/// Whether more steps than one hold as many samples as the first on both sides, where several are there. `left`: null
/// where a promise stands for it.
bool is_so_again(const trace::RunTrace* left, const trace::RunTrace& right, std::int64_t expected, std::int64_t its) {
  std::size_t alike = 0, all = 0;
  for (const trace::Step& step : right.ranks[0].steps) {
    const auto samples = static_cast<std::int64_t>(global_batch_of(right, step.step).size());
    const auto theirs =
        left == nullptr ? expected : static_cast<std::int64_t>(global_batch_of(*left, step.step).size());
    if (step.step < 0 || samples == 0 || theirs == 0) continue;
    ++all;
    alike += samples == its && theirs == expected ? 1 : 0;
  }
  return all <= 1 || alike > 1;
}

}  // namespace

std::vector<Suspect> suspects_in_batch_size(const Scene& scene) {
  // Ranks with other parts of the same samples, as under context parallelism: their ids do not count.
  const auto has_parts = [](const Side& side) {
    return side && side.promises->known && laws::have_ids_of_their_own(*side.run);
  };
  if (has_parts(scene.left) || has_parts(scene.right)) return {};
  if (scene.within_one_run() || !scene.right) return {};
  const trace::RunTrace& right = *scene.right.run;
  const FirstBatch its = first_batch(right);
  if (its.samples == 0 || scene.at.step > its.step) return {};
  const std::int64_t expected = scene.left
                                    ? first_batch(*scene.left.run).samples
                                    : scene.right.promises->train.batch.global_size(scene.right.promises->world_size);
  const std::int64_t more = std::max(its.samples, expected), less = std::min(its.samples, expected);
  if (less == 0 || more == less || more % less != 0) return {};
  if (!is_so_again(scene.left ? scene.left.run : nullptr, right, expected, its.samples)) return {};
  const std::int64_t factor = more / less;
  const std::int64_t theirs = scene.left ? scene.left.run->world_size() : right.world_size();
  const std::int64_t split = right.world_size() / trace::batch_shares_of(right);
  const std::string seen = "step " + std::to_string(its.step) + ": " + std::to_string(its.samples) +
                           " samples of all ranks in " + right.run + ", " + std::to_string(expected) +
                           (scene.left ? " in " + scene.left.run->run : std::string(" by the recipe"));
  if (factor == split && theirs == right.world_size())
    return {{"data.batch_semantics",
             {seen, std::to_string(split) + " ranks compute one share of the batch together: one side divides the " +
                        "batch by the ranks, the other by the shares"}}};
  if (factor != right.world_size() && factor != theirs &&
      factor * std::min(theirs, right.world_size()) != std::max(theirs, right.world_size()))
    return {};
  return {{"data.batch_semantics",
           {seen, "a factor of " + std::to_string(factor) + ", as between the ranks (" + std::to_string(theirs) +
                      " and " + std::to_string(right.world_size()) +
                      "): one side takes the batch per rank, the other for all ranks"}}};
}

std::vector<Suspect> suspects_in_tail(const Scene& scene) {
  if (scene.within_one_run() || !scene.right) return {};
  const std::vector<Epoch> its = epochs_of(*scene.right.run, *scene.right.promises);
  const std::vector<Epoch> theirs = scene.left ? epochs_of(*scene.left.run, *scene.left.promises) : its;
  const auto number = common_epoch(theirs, its, scene.at.step);
  if (!number) return {};
  for (std::int64_t epoch = *number; epoch >= std::max<std::int64_t>(0, *number - 1); --epoch) {
    const auto right = tail_of(*scene.right.run, its, epoch);
    const auto left =
        scene.left ? tail_of(*scene.left.run, theirs, epoch) : promised_tail(*scene.right.run, *scene.right.promises);
    if (!left || !right) continue;
    const std::int64_t end = scene.left ? std::min(left->last_step, right->last_step) : right->last_step;
    // Sides that part before the tail part for another reason; against a promise, the next epoch may show it first.
    if (scene.at.step < end || (scene.left && scene.at.step > end + 1)) continue;
    if (auto suspects = suspects_of_tails(*left, *right, epoch); !suspects.empty()) return suspects;
  }
  return {};
}

std::vector<Suspect> suspects_in_dealing(const Scene& scene) {
  if (scene.within_one_run() || !scene.left || !scene.right || scene.at.channel != Channel::kSamples) return {};
  const std::vector<Epoch> lefts = epochs_of(*scene.left.run, *scene.left.promises),
                           rights = epochs_of(*scene.right.run, *scene.right.promises);
  const Epoch* left = epoch_at(lefts, scene.at.step);
  const Epoch* right = epoch_at(rights, scene.at.step);
  if (left == nullptr || right == nullptr || left->number != right->number) return {};
  if (global_batch_of(*scene.left.run, scene.at.step).size() != global_batch_of(*scene.right.run, scene.at.step).size())
    return {};
  if (left->whole && right->whole && lacks_samples(*left, *right)) return {};
  for (const Dealing& ours : dealings_of(scene.left, *left)) {
    for (const Dealing& theirs : dealings_of(scene.right, *right)) {
      if (ours.way == theirs.way || !begins_alike(ours.order, theirs.order)) continue;
      return {
          {"data.batch_composition",
           {"epoch " + std::to_string(left->number) + " has one order on both sides: " + some_ids(ours.order),
            scene.left.run->run + " deals it out as " + ours.way + " to each rank, " + scene.right.run->run + " as " +
                theirs.way + ": their global batches differ from step " + std::to_string(scene.at.step) + " on"}}};
    }
  }
  return same_samples_of_other_samplers(scene, *left, *right);
}

}  // namespace lockstep::diagnosis
