#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "harness/checks/check.h"
#include "harness/laws/promise.h"
#include "harness/trace/entry.h"

namespace lockstep::checks {
namespace {

using laws::Promise;
using trace::Channel;

/// One sample as a rank took it.
struct Taken {
  std::int64_t id = 0;
  std::int64_t step = 0;
};

CheckResult violation_in(const trace::RunTrace& run, std::int64_t step, std::size_t rank, std::string expected,
                         std::string actual, std::string cause) {
  return {.status = CheckResult::Status::kDivergence,
          .divergence = compare::Divergence{.step = step,
                                            .channel = Channel::kSamples,
                                            .tensor = "ids",
                                            .rank = static_cast<std::int64_t>(rank),
                                            .left = "sampler's promise",
                                            .right = run.run,
                                            .expected = std::move(expected),
                                            .actual = std::move(actual),
                                            .class_ = scenario::Class::kSemantic,
                                            .cause = std::move(cause)}};
}

CheckResult no_epoch_in(const trace::RunTrace& run) {
  return {.status = CheckResult::Status::kInconclusive,
          .why = run.run + " did not finish an epoch",
          .next = "raise train.steps, or use less data"};
}

/// A sampler of one's own takes every sample once, over all ranks, before it takes one again. Which rank takes how
/// many, and where an epoch ends, is its own affair: at the end of each step no sample is ahead of another by more than
/// one.
CheckResult judge_each_once(const trace::RunTrace& run, std::int64_t samples) {
  std::unordered_map<std::int64_t, std::int64_t> times;
  std::map<std::int64_t, std::int64_t> having = {{0, samples}};  // samples by how often they were taken
  std::size_t taken = 0;
  for (const trace::Step& step : run.ranks[0].steps) {
    std::vector<std::pair<std::int64_t, std::size_t>> ids;  // with their ranks
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const trace::Record* record = run.ranks[rank].find(step.step, Channel::kSamples, "ids");
      if (record == nullptr) continue;
      for (const std::int64_t id : record->integers) ids.emplace_back(id, rank);
    }
    for (const auto& [id, rank] : ids) {
      if (id < 0 || id >= samples)
        return violation_in(run, step.step, rank, "samples 0 to " + std::to_string(samples - 1),
                            "sample " + std::to_string(id), "there is no such sample");
      std::int64_t& now = times[id];
      if (--having[now] == 0) having.erase(now);
      ++having[++now];
      ++taken;
    }
    const auto [fewest, behind] = *having.begin();
    for (const auto& [id, rank] : ids) {
      if (times[id] <= fewest + 1) continue;
      std::int64_t first = 0;
      while (times[first] > fewest) ++first;
      return violation_in(run, step.step, rank, "every sample once before one comes again",
                          "sample " + std::to_string(id) + " was taken " + std::to_string(times[id]) + " times, and " +
                              std::to_string(behind) + (behind == 1 ? " sample " : " samples ") +
                              std::to_string(fewest) + " times, the first is " + std::to_string(first),
                          "samples are left out or taken too often: padding, a rank's shard given twice, or a sampler "
                          "without ranks");
    }
  }
  if (taken > 0 && having.begin()->first == 0) return no_epoch_in(run);
  return {.compared = taken};
}

/// The samples of all ranks, cut into epochs.
class Coverage {
 public:
  /// `batch`: samples that a rank takes in a step.
  Coverage(const trace::RunTrace& run, const Promise& promise, std::int64_t batch)
      : run_(run), promise_(promise), batch_(batch) {
    for (const trace::Trace& rank : run.ranks) taken_.push_back(taken_by(rank));
    for (std::size_t rank = 0; rank < taken_.size(); ++rank)
      epochs_ = std::min(epochs_, static_cast<std::int64_t>(taken_[rank].size()) / promise_.each[rank]);
  }

  CheckResult judge() const {
    const auto sooner = [](const CheckResult& a, const CheckResult& b) {
      return a.divergence && (!b.divergence || a.divergence->step <= b.divergence->step);
    };
    const CheckResult batches = judge_batches(), shares = judge_shares();
    CheckResult result;
    for (std::int64_t epoch = 0; epoch <= epochs_ && !result.divergence; ++epoch) {
      keep_worst(result, judge_epoch(epoch, /*finished=*/epoch < epochs_));
      if (epoch > 0) keep_worst(result, judge_order(epoch));
    }
    if (sooner(batches, result) && sooner(batches, shares)) return batches;
    if (sooner(shares, result)) return shares;
    if (epochs_ == 0 && !result.divergence) return no_epoch_in(run_);
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
    return violation_in(run_, step, rank, std::move(expected), std::move(actual), std::move(cause));
  }

  const Taken& at(std::int64_t epoch, std::size_t rank, std::int64_t i) const {
    return taken_[rank][static_cast<std::size_t>(epoch * promise_.each[rank] + i)];
  }

  /// Samples of one rank in an epoch, which may be the last, unfinished one.
  std::int64_t length(std::int64_t epoch, std::size_t rank) const {
    return std::min(promise_.each[rank], static_cast<std::int64_t>(taken_[rank].size()) - epoch * promise_.each[rank]);
  }

  /// A batch is short only where the rank's epoch ends.
  CheckResult judge_batches() const {
    CheckResult result;
    for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) {
      std::int64_t taken = 0;
      for (const trace::Step& step : run_.ranks[rank].steps) {
        const trace::Record* ids = step.find(Channel::kSamples, "ids");
        if (ids == nullptr) continue;
        const auto count = static_cast<std::int64_t>(ids->integers.size());
        const bool ends_epoch = (taken + count) / promise_.each[rank] > taken / promise_.each[rank];
        taken += count;
        if (count == batch_ || (ends_epoch && count < batch_)) continue;
        if (!result.divergence || step.step < result.divergence->step)
          result = violation(step.step, rank, std::to_string(batch_) + " samples before the epoch's end",
                             std::to_string(count) + " samples", "a batch is short in the middle of an epoch");
        break;
      }
    }
    return result;
  }

  /// Where a sampler gives all ranks equally many samples, it does so in every step.
  CheckResult judge_shares() const {
    if (std::set<std::int64_t>(promise_.each.begin(), promise_.each.end()).size() > 1) return {};
    for (std::size_t i = 0; i < run_.ranks[0].steps.size(); ++i) {
      const trace::Step& step = run_.ranks[0].steps[i];
      const trace::Record* first = step.find(Channel::kSamples, "ids");
      for (std::size_t rank = 1; rank < run_.ranks.size(); ++rank) {
        const trace::Record* ids = run_.ranks[rank].find(step.step, Channel::kSamples, "ids");
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
    std::optional<std::pair<std::int64_t, std::size_t>> repeat;  // step and rank of the first sample that came before
    const std::int64_t longest = *std::max_element(promise_.each.begin(), promise_.each.end());
    for (std::int64_t i = 0; i < longest; ++i) {
      for (std::size_t rank = 0; rank < taken_.size(); ++rank) {
        if (i >= length(epoch, rank)) continue;
        const Taken& taken = at(epoch, rank, i);
        const std::string actual = "sample " + std::to_string(taken.id);
        if (taken.id < promise_.first || taken.id >= promise_.samples)
          return violation(taken.step, rank,
                           "samples " + std::to_string(promise_.first) + " to " + std::to_string(promise_.samples - 1),
                           actual, "there is no such sample");
        const std::int64_t now = ++times[place(rank, taken.id)],
                           most = i < promise_.new_until[rank] ? 1 : promise_.most;
        if (now > most)
          return violation(
              taken.step, rank,
              "every sample at most " + std::to_string(most) + " times so far in epoch " + std::to_string(epoch),
              actual + " again",
              "a sample is taken too often: padding, a rank's shard given twice, or a sampler without ranks");
        if (now > 1 && !repeat) repeat = {taken.step, rank};
      }
    }
    if (!finished) return {};
    for (std::size_t rank = 0; rank < (promise_.by_rank ? taken_.size() : 1); ++rank) {
      std::vector<std::int64_t> missing;
      for (std::int64_t id = promise_.first; id < promise_.samples; ++id) {
        const auto found = times.find(place(rank, id));
        if ((found == times.end() ? 0 : found->second) < promise_.least) missing.push_back(id);
      }
      if (!missing.empty())
        return violation(
            repeat ? repeat->first : at(epoch, rank, promise_.each[rank] - 1).step, repeat ? repeat->second : rank,
            "every sample at least " + std::to_string(promise_.least) + " times in epoch " + std::to_string(epoch),
            std::to_string(missing.size()) + " samples less often, the first is " + std::to_string(missing[0]),
            "samples are left out");
    }
    return {.compared = static_cast<std::size_t>(promise_.samples)};
  }

  /// An author who forgets set_epoch gets the first epoch's order for ever; no count can show that. An epoch that is
  /// not finished shows it by how it begins.
  CheckResult judge_order(std::int64_t epoch) const {
    if (!promise_.reshuffles) return {};
    std::size_t same = 0, first = 0;
    std::int64_t together = 0, fewest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t rank = taken_.size(); rank-- > 0;) {
      const std::int64_t both = std::max(length(epoch, rank), std::int64_t{0});
      bool equal = both > 0;
      for (std::int64_t i = 0; i < both && equal; ++i) equal = at(epoch, rank, i).id == at(epoch - 1, rank, i).id;
      same += equal ? 1 : 0;
      if (equal) first = rank;
      together += both;
      fewest = std::min(fewest, both);
    }
    const bool tells = fewest >= promise_.never_again
                           ? same > 0
                           : promise_.one_order && same == taken_.size() && together >= promise_.never_again;
    if (tells)
      return violation(at(epoch, first, 0).step, first, "another order than in epoch " + std::to_string(epoch - 1),
                       "the same order", "two epochs have one order; look at set_epoch");
    return {.compared = 1};
  }

  const trace::RunTrace& run_;
  const Promise& promise_;
  std::int64_t batch_;
  std::vector<std::vector<Taken>> taken_;
  std::int64_t epochs_ = std::numeric_limits<std::int64_t>::max();  ///< finished by every rank
};

/// A step that ends a pass over a program's loader although a batch still waits for a model. The recorder had guessed
/// which batches the model took ("seen.waiting" is told since then), and one of the pass was left out.
std::optional<std::int64_t> guessed_wrongly(const trace::RunTrace& run) {
  for (const trace::Trace& rank : run.ranks) {
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      const trace::Record* waiting = rank.steps[i].find(Channel::kLedger, "seen.waiting");
      if (waiting == nullptr || waiting->integers == std::vector<std::int64_t>{0}) continue;
      const auto pass_of = [](const trace::Step& step) {
        const trace::Record* pass = step.find(Channel::kLedger, trace::entry::kPasses);
        return pass != nullptr ? pass : step.find(Channel::kLedger, trace::entry::kEpoch);
      };
      const bool is_last = i + 1 == rank.steps.size();
      if (is_last || !trace::same_bits(pass_of(rank.steps[i]), pass_of(rank.steps[i + 1]))) return rank.steps[i].step;
    }
  }
  return std::nullopt;
}

}  // namespace

CheckResult judge_coverage(const trace::RunTrace& run, const scenario::Promises& promises) {
  const bool all_samples = promises.train.record.every == 1 && promises.train.record.holds(Channel::kSamples) &&
                           !laws::begins_within_an_epoch(promises.train);
  if (!all_samples)
    return {.status = CheckResult::Status::kInconclusive,
            .why = "'" + promises.name + "' does not record the samples of every step from the first",
            .next = "record the channel 'samples' at every step, in a variant that does not resume"};
  const bool each_once = promises.known && promises.knows("each_once");
  if (auto lacking = lacking_promise(promises, {"sampler", "batch"}); lacking && !each_once) return *lacking;
  if (const auto step = guessed_wrongly(run))
    return {.status = CheckResult::Status::kInconclusive,
            .why = run.run + " skips batches of its loader (at step " + std::to_string(*step) +
                   " one is still unused) and changes others, so its sample ids are uncertain",
            .next = "pass them in the script: lockstep.ids(indices)"};
  const std::int64_t samples = laws::samples_of(run, promises);
  if (samples < 1)
    return {.status = CheckResult::Status::kInconclusive,
            .why = run.run + " does not record the number of samples",
            .next = promises.known ? "say it: promises.data.samples" : ""};
  if (each_once) return judge_each_once(run, samples);
  const std::optional<Promise> promise = laws::promise_of(promises, samples);
  if (!promise || !promise->usable())
    return {.status = CheckResult::Status::kInconclusive,
            .why = run.run +
                   (promise ? ": too little data for this sampler" : ": the promise of this sampler is not known"),
            .next = promise ? "use more data, or fewer ranks" : ""};
  const recipe::BatchSpec& batch = promises.train.batch;
  return Coverage(run, *promise, batch.micro_size(promises.world_size) * batch.accumulation).judge();
}

CheckResult check_covers(const CheckInput& input) {
  CheckResult total;
  for (const std::string& name : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(name))
      combine(total, judge_coverage(*repeat, input.scenario.variant(name)));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
