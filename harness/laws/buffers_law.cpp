#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/scales.h"
#include "harness/recipe/rounded.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

/// Forward passes that normalisation layers counted.
bool counts_passes(const Record& record) {
  return record.channel == Channel::kBuffer && record.name.ends_with("num_batches_tracked");
}

bool has_counts(const trace::RunTrace& run) {
  const std::vector<trace::Step>& steps = run.ranks[0].steps;
  return !steps.empty() && std::any_of(steps[0].records.begin(), steps[0].records.end(), counts_passes);
}

trace::Digest digest_of_count(std::int64_t count) {
  std::array<std::byte, sizeof count> bytes{};
  std::memcpy(bytes.data(), &count, sizeof count);
  return trace::digest_of(trace::DType::kInt64, {}, bytes);
}

/// Of torch's normalisation layers by default, and of all that the worker has.
constexpr double kMomentum = 0.1;

constexpr std::string_view kExpected = "seen.buffer ";

double along(const Record* buffer) {
  if (buffer == nullptr || !buffer->sketch) return NAN;
  return std::accumulate(buffer->sketch->buckets.begin(), buffer->sketch->buckets.end(), 0.0);
}

/// How a buffer of a rank is made in a step.
struct MovedBuffer {
  double actual = 0;
  double own = 0;     ///< from the rank's own buffer before
  double shared = 0;  ///< from rank 0's, which DDP broadcasts before the pass
  double bound = 0;
};

std::optional<MovedBuffer> made_in(const trace::RunTrace& run, const trace::Trace& rank, const trace::Step& step,
                                   const std::string& name) {
  const Record* now = step.find(Channel::kBuffer, name);
  const Record* expected = step.find(Channel::kLedger, std::string(kExpected) + name);
  const Record* rounding = step.find(Channel::kLedger, "seen.buffer_rounding " + name);
  if (now == nullptr || !now->norm || expected == nullptr || rounding == nullptr) return std::nullopt;
  const Record *before = rank.find(step.step - 1, Channel::kBuffer, name),
               *of_first = run.ranks[0].find(step.step - 1, Channel::kBuffer, name);
  const double size = std::sqrt(count_of(*now)) * *now->norm;  // no sum of signs is larger
  MovedBuffer made{.actual = along(now), .own = *expected->number};
  made.shared = made.own + (1 - kMomentum) * (along(of_first) - along(before));
  made.bound = kOfCopy * (*rounding->number + trace::unit_roundoff(now->dtype) * size);
  if (!std::isfinite(made.actual) || !std::isfinite(made.own) || !std::isfinite(made.bound)) return std::nullopt;
  return made;
}

/// Whether the pass of a step begins with the buffers of rank 0.
bool broadcasts(const recipe::TrainSpec& train) { return train.ddp.wrap && train.ddp.broadcast_buffers; }

/// Whether an evaluation follows, before the step's buffers are recorded: its first pass makes them rank 0's.
bool is_evaluated(const recipe::TrainSpec& train, std::int64_t step) {
  return train.evaluation && (step + 1) % train.evaluation->every == 0;
}

/// Forward passes of a rank in a step; an epoch's end may leave fewer than the recipe's.
std::int64_t passes_in(const trace::Step& step) {
  return std::count_if(step.records.begin(), step.records.end(), is_own_loss);
}

/// Running means and variances follow from those before and the batch's own moments, which the worker computes in the
/// steps in which it records slopes.
std::optional<Breach> moves_otherwise(Outcome& outcome, const trace::RunTrace& run, const trace::Trace& rank,
                                      const trace::Step& step, const recipe::TrainSpec& train) {
  const bool shares = broadcasts(train) && rank.rank > 0;
  if (shares && is_evaluated(train, step.step)) return std::nullopt;
  for (const Record& entry : step.records) {
    if (entry.channel != Channel::kLedger || !entry.name.starts_with(kExpected)) continue;
    const std::string name = entry.name.substr(kExpected.size());
    const auto made = made_in(run, rank, step, name);
    const bool of_first = shares && passes_in(step) == 1;  // later passes begin with what is broadcast already
    if (!made || (of_first && !std::isfinite(made->shared))) continue;
    const double expected = of_first ? made->shared : made->own;
    ++outcome.judged;
    if (std::fabs(made->actual - expected) <= made->bound) continue;
    Breach breach{.at = {step.step, Channel::kBuffer, name, rank.rank},
                  .expected = rounded(expected, 9) + " along its sketch, by the batch's own moments",
                  .actual = rounded(made->actual, 9) + "; rounding explains " + rounded(made->bound, 3)};
    if (of_first && std::fabs(made->actual - made->own) <= made->bound) {
      breach.cause = "buffer.not_synced";
      breach.evidence = "the recipe broadcasts buffers, and this one moves on from the rank's own";
    }
    return breach;
  }
  return std::nullopt;
}

}  // namespace

std::string no_buffers_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (!promises.known && !has_counts(run)) return "the model counts no batches";
  return promises.train.checkpoint.load ? "the counts go on from a checkpoint" : "";
}

/// *Source*: torch.nn.BatchNorm2d, PyTorch 2.11.
Outcome judge_buffers(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("how often this program's layers see a batch is not promised");
  if (promises.train.record.every != 1) return cannot_tell("not every step is recorded");
  Outcome outcome;
  for (const trace::Trace& rank : run.ranks) {
    std::int64_t passes = 0;
    for (const trace::Step& step : rank.steps) {
      if (outcome.broken && outcome.broken->at.step <= step.step) break;
      passes += passes_in(step);
      if (step.step >= 0 && passes == 0) break;  // no losses are recorded
      const trace::Digest expected = digest_of_count(passes);
      if (const auto moved = moves_otherwise(outcome, run, rank, step, promises.train)) outcome.broken = moved;
      for (const Record& record : step.records) {
        if (!counts_passes(record) || record.dtype != trace::DType::kInt64) continue;
        ++outcome.judged;
        if (record.digest == expected) continue;
        outcome.broken = Breach{.at = {step.step, Channel::kBuffer, record.name, rank.rank},
                                .expected = std::to_string(passes) + " forward passes since the start",
                                .actual = "another count"};
        break;
      }
    }
  }
  return outcome;
}

}  // namespace lockstep::laws
