#include <algorithm>
#include <array>
#include <cstring>

#include "harness/laws/held.h"
#include "harness/laws/law.h"

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

std::int64_t passes_in(const trace::Step& step) {
  return std::count_if(step.records.begin(), step.records.end(), is_own_loss);
}

}  // namespace

std::string no_buffers_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (!promises.known && !has_counts(run)) return "the model counts no batches";
  return promises.train.checkpoint.load ? "the counts go on from a checkpoint" : "";
}

/// *Source*: torch.nn.BatchNorm2d, PyTorch 2.11.
Outcome judge_buffers(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("nobody promises how often this program's layers see a batch");
  if (promises.train.record.every != 1) return cannot_tell("not every step is recorded");
  Outcome outcome;
  for (const trace::Trace& rank : run.ranks) {
    std::int64_t passes = 0;
    for (const trace::Step& step : rank.steps) {
      if (outcome.broken && outcome.broken->at.step <= step.step) break;
      passes += passes_in(step);
      if (step.step >= 0 && passes == 0) break;  // no losses are recorded
      const trace::Digest expected = digest_of_count(passes);
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
