#include "harness/checks/checkpoint_law.h"

#include <algorithm>
#include <array>

#include "harness/laws/held.h"
#include "harness/trace/entry.h"

namespace lockstep::checks {
namespace {

using laws::Held;
using trace::Channel;
using trace::Record;

/// What a checkpoint restores of a channel.
struct Restored {
  Channel channel;
  const char* part;  ///< of "restore"
  bool of_each_rank = false;
};

constexpr std::array<Restored, 5> kRestored = {{{Channel::kWeight, "weights"},
                                                {Channel::kOptimizer, "optimizer"},
                                                {Channel::kBuffer, "buffers", true},
                                                {Channel::kEma, "ema"},
                                                {Channel::kRng, "rng", true}}};

CheckResult untold(std::string why, std::string next = "") {
  return {.status = CheckResult::Status::kInconclusive, .why = std::move(why), .next = std::move(next)};
}

/// Why the checkpoint that each rank takes is unknown; empty: it is known.
std::string unknown_choice(const trace::RunTrace& run, const recipe::LoadSpec& load) {
  if (!run.unplaced.empty()) return run.unplaced;
  if (load.from.empty()) return "it begins with a file whose tensors were not recorded";
  if (!load.of_rank.empty()) return "each rank takes a checkpoint of its own";
  if (load.pick == recipe::LoadPick::kHighestName)
    return "the last name in text order need not be the newest checkpoint";
  return "";
}

/// One run after loading, and the one that saved.
class Loading {
 public:
  Loading(const trace::RunTrace& run, const scenario::Promises& promises, const Saver& saver)
      : run_(run),
        promises_(promises),
        saver_(saver),
        load_(*promises.train.checkpoint.load),
        saved_(scenario::newest_saved(load_, *saver.promises) - 1),
        begin_(run.ranks[0].steps.empty() ? saved_ : run.ranks[0].steps.front().step) {}

  CheckResult judge() {
    if (run_.ranks[0].steps.empty()) return untold(run_.run + " recorded no step");
    if (saver_.run->ranks[0].find(saved_) == nullptr)
      return untold(saver_.run->run + " recorded nothing after step " + std::to_string(saved_) + ", when it saved");
    const std::int64_t expected = load_.restores("schedule") ? saved_ : trace::kInitialStep;
    if (begin_ != expected) {
      if (promises_.train.record.every != 1) return untold(run_.run + " did not record its state after loading");
      return {.status = CheckResult::Status::kDivergence,
              .compared = 1,
              .divergence = begins_elsewhere(run_, expected, begin_)};
    }
    CheckResult result;
    for (std::size_t rank = 0; rank < (load_.who == recipe::LoadWho::kRank0 ? 1 : run_.ranks.size()); ++rank) {
      for (const Restored& restored : kRestored) {
        if (!result.divergence && is_judged(restored)) judge_channel(restored, rank, result);
      }
      if (!result.divergence) judge_count(rank, result);
    }
    if (result.divergence) result.status = CheckResult::Status::kDivergence;
    if (result.compared == 0) return untold("neither run records what a checkpoint restores");
    return result;
  }

 private:
  bool same_world() const { return run_.world_size() == saver_.run->world_size(); }

  /// For a program: what every rank loads from one file; buffers come with the weights.
  bool is_judged(const Restored& restored) const {
    if (promises_.known) return restored.channel == Channel::kWeight || restored.channel == Channel::kOptimizer;
    const recipe::TrainSpec &its = promises_.train, &saved = saver_.promises->train;
    if (its.precision != saved.precision || its.exact != saved.exact) return false;
    if (restored.channel == Channel::kRng && !same_world()) return false;
    const bool of_weights = restored.channel == Channel::kWeight || restored.channel == Channel::kBuffer;
    return !of_weights || load_.keys.skip.empty();
  }

  bool is_asked(const Restored& restored) const {
    return load_.restores(restored.part) || (restored.channel == Channel::kBuffer && load_.restores("weights"));
  }

  void judge_channel(const Restored& restored, std::size_t rank, CheckResult& result) {
    const bool is_own = promises_.known || (restored.of_each_rank && load_.restores(restored.part));
    const bool own = is_own && same_world();
    const Held loaded(run_, rank, begin_), saved(*saver_.run, own ? rank : 0, saved_);
    if (!is_asked(restored)) return judge_fresh(restored, rank, loaded, saved, result);
    for (const Record* record : saved.all(restored.channel)) {
      const Record* now = loaded.find(restored.channel, record->name);
      const bool is_same = trace::same_bits(record, now);
      const bool may_lack = !load_.keys.strict && (now == nullptr || now->shape != record->shape);
      if (may_lack && restored.channel != Channel::kOptimizer) continue;
      ++result.compared;
      if (!is_same) return break_at(restored, rank, *record, now, result);
    }
    for (const Record* record : loaded.all(restored.channel)) {
      if (saved.find(restored.channel, record->name) != nullptr || !record->norm || *record->norm == 0) continue;
      if (load_.keys.strict) return break_at(restored, rank, *record, record, result);
    }
  }

  /// What was not asked for is not what was saved, unless the other run began with it.
  void judge_fresh(const Restored& restored, std::size_t rank, const Held& loaded, const Held& saved,
                   CheckResult& result) {
    const Held initial(*saver_.run, 0, trace::kInitialStep);
    if (promises_.known || restored.channel == Channel::kBuffer || initial.empty()) return;
    for (const Record* record : loaded.all(restored.channel)) {
      const Record* was = saved.find(restored.channel, record->name);
      if (trace::same_bits(was, initial.find(restored.channel, record->name))) continue;
      ++result.compared;
      if (!trace::same_bits(was, record)) continue;
      result.divergence = divergence_at(restored.channel, record->name, rank);
      result.divergence->expected = std::string("a new state: '") + restored.part + "' is not to be restored";
      result.divergence->actual = "what " + saver_.run->run + " had when it saved";
      return;
    }
  }

  void break_at(const Restored& restored, std::size_t rank, const Record& record, const Record* now,
                CheckResult& result) {
    result.divergence = divergence_at(restored.channel, record.name, rank);
    result.divergence->expected =
        now == &record ? "nothing: " + saver_.run->run + " had none when it saved"
                       : "what " + saver_.run->run + " had after step " + std::to_string(saved_) + ", when it saved";
    result.divergence->actual = now == nullptr ? "no such tensor" : "another tensor after loading";
  }

  compare::Divergence divergence_at(Channel channel, const std::string& tensor, std::size_t rank) const {
    return {.step = begin_,
            .channel = channel,
            .tensor = tensor,
            .rank = static_cast<std::int64_t>(rank),
            .left = "checkpoint of " + saver_.run->run,
            .right = run_.run,
            .class_ = scenario::Class::kSemantic,
            .cause = "the state after loading is not the one that was saved"};
  }

  /// The first update counts on from rank 0's samples, which the checkpoint holds for all ranks.
  void judge_count(std::size_t rank, CheckResult& result) const {
    if (promises_.known || !same_world() || !load_.restores("schedule")) return;
    const Held first(run_, rank, begin_ + 1), saved(*saver_.run, 0, saved_);
    const Record *before = saved.find(Channel::kLedger, trace::entry::kSamplesTaken),
                 *now = first.find(Channel::kLedger, trace::entry::kSamplesTaken),
                 *ids = first.find(Channel::kSamples, "ids");
    if (before == nullptr || now == nullptr || ids == nullptr) return;
    if (before->integers.size() != 1 || now->integers.size() != 1) return;
    const std::int64_t expected = before->integers[0] + static_cast<std::int64_t>(ids->integers.size());
    ++result.compared;
    if (now->integers[0] == expected) return;
    result.divergence = divergence_at(Channel::kLedger, trace::entry::kSamplesTaken, rank);
    result.divergence->step = begin_ + 1;
    result.divergence->expected = std::to_string(expected);
    result.divergence->actual = std::to_string(now->integers[0]);
  }

  const trace::RunTrace& run_;
  const scenario::Promises& promises_;
  const Saver& saver_;
  const recipe::LoadSpec& load_;
  std::int64_t saved_, begin_;
};

}  // namespace

compare::Divergence begins_elsewhere(const trace::RunTrace& resumed, std::int64_t expected, std::int64_t actual) {
  const auto after = [](std::int64_t step) { return "the state after " + std::to_string(step + 1) + " updates"; };
  return {.step = actual,
          .channel = Channel::kLedger,
          .tensor = trace::entry::kUpdates,
          .rank = 0,
          .left = "checkpoint",
          .right = resumed.run,
          .expected = after(expected),
          .actual = after(actual),
          .class_ = scenario::Class::kSemantic,
          .cause =
              "the training does not continue where the checkpoint was saved: its counter is not restored, or "
              "nothing is"};
}

CheckResult judge_checkpoint(const trace::RunTrace& run, const scenario::Promises& promises, const Saver& saver) {
  const std::string unknown = unknown_choice(run, *promises.train.checkpoint.load);
  if (!unknown.empty()) return untold(unknown);
  if (!saver)
    return untold("the trace of the run that saved its checkpoint is not there",
                  "leave that run's folder where it was, or name both runs");
  CheckResult result = Loading(run, promises, saver).judge();
  if (result.divergence && !promises.knows("optimizer"))
    return untold(result.divergence->place() + " is not what was saved: the program may have changed it itself");
  return result;
}

}  // namespace lockstep::checks
