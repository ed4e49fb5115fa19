#include "harness/compare/continuation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "harness/base/text.h"
#include "harness/compare/moments.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/entry.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;
using trace::RunTrace;
using trace::Step;

std::vector<const Record*> weights_of(const Step& step) {
  std::vector<const Record*> weights;
  for (const Record& record : step.records) {
    if (record.channel == Channel::kWeight) weights.push_back(&record);
  }
  return weights;
}

bool has_begun(const RunTrace& run) { return !run.ranks.empty() && !run.ranks[0].steps.empty(); }

std::int64_t first_step(const RunTrace& run) { return run.ranks[0].steps.front().step; }

bool contains(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

std::string text_of(const std::vector<std::int64_t>& steps) {
  std::vector<std::string> texts;
  for (const std::int64_t step : steps) texts.push_back(std::to_string(step));
  return some_of(texts, 4);
}

/// Steps after which a source held the tensors of checkpoints that it wrote.
struct StepsOfFiles {
  std::vector<std::int64_t> steps;  ///< ascending
  bool are_known = true;            ///< by the tensors; else by the moment of the writing
};

/// `read_by`: only of checkpoints with a content that this run read.
StepsOfFiles steps_of_files(const RunAndFiles& source, const std::vector<std::optional<Moments>>& moments,
                            const RunAndFiles* read_by) {
  const std::int64_t first = first_step(source.run);  // updates before it, by those whom it resumed itself
  StepsOfFiles found;
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    const trace::CheckpointFile& file = source.files[i];
    const auto is_same = [&](const trace::CheckpointFile& other) {
      return !other.written && !other.sha256.empty() && other.sha256 == file.sha256;
    };
    if (!file.written) continue;
    if (read_by != nullptr && std::none_of(read_by->files.begin(), read_by->files.end(), is_same)) continue;
    if (!moments[i]) {
      found.steps.push_back(first + file.updates);
      found.are_known = false;
      continue;
    }
    for (const FilePart& part : moments[i]->parts) found.steps.push_back(part.step);
    found.steps.insert(found.steps.end(), moments[i]->further.begin(), moments[i]->further.end());
  }
  std::sort(found.steps.begin(), found.steps.end());
  return found;
}

void set_integer(Record& record, std::int64_t value) {
  record.integers = {value};
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof value>>(value);
  record.digest = trace::digest_of(record.dtype, record.shape, bytes);
}

/// Counts that go on from the source's.
bool is_total(const std::string& name) { return name == trace::entry::kSamplesTaken || name == trace::entry::kSkipped; }

/// Counts one step's ledger on. `before`: the source's ledger.
void count_step_on(Step& step, std::int64_t updates, const Step* before) {
  const bool sampler_tells =
      step.find(Channel::kLedger, trace::entry::kPasses) != nullptr;  // else an epoch is a pass of a loader
  std::vector<Record> records;
  for (Record& record : step.records) {
    const bool is_count = record.channel == Channel::kLedger && record.integers.size() == 1;
    if (is_count && (record.name == trace::entry::kPasses || (record.name == trace::entry::kEpoch && !sampler_tells)))
      continue;
    if (is_count && record.name == trace::entry::kUpdates) set_integer(record, record.integers[0] + updates);
    if (is_count && is_total(record.name)) {
      const Record* held = before == nullptr ? nullptr : before->find(Channel::kLedger, record.name);
      if (held == nullptr || held->integers.size() != 1) continue;
      set_integer(record, record.integers[0] + held->integers[0]);
    }
    records.push_back(std::move(record));
  }
  step.records = std::move(records);
  step.step += updates;
}

/// A rank that begins with rank 0's buffer begins as it was: DDP overwrites it before the next pass, as it did before.
void begin_as_before(Step& begin, const Step& of_rank_0, const Step& before) {
  for (Record& record : begin.records) {
    if (record.channel != Channel::kBuffer) continue;
    const Record *shared = of_rank_0.find(record.channel, record.name), *was = before.find(record.channel, record.name);
    if (was != nullptr && trace::same_bits(shared, &record)) record = *was;
  }
}

}  // namespace

std::vector<std::int64_t> steps_with_weights(const RunTrace& source, const RunTrace& resumed) {
  std::vector<std::int64_t> steps;
  if (!has_begun(source) || !has_begun(resumed)) return steps;
  const std::vector<const Record*> begins = weights_of(resumed.ranks[0].steps.front());
  const auto same = [](const Record* a, const Record* b) { return a->name == b->name && trace::same_bits(a, b); };
  for (const Step& step : source.ranks[0].steps) {
    const std::vector<const Record*> held = weights_of(step);
    if (!held.empty() && std::equal(held.begin(), held.end(), begins.begin(), begins.end(), same))
      steps.push_back(step.step);
  }
  return steps;
}

Continuation continuation_of(const RunAndFiles& source, const RunAndFiles& resumed) {
  Continuation found;
  if (!has_begun(source.run) || !has_begun(resumed.run)) {
    found.why = (has_begun(resumed.run) ? source.run.run : resumed.run.run) + " recorded no step";
    return found;
  }
  const std::vector<std::int64_t> by_weights = steps_with_weights(source.run, resumed.run);
  const std::vector<std::optional<Moments>> moments = moments_of(source.run, source.files);
  const StepsOfFiles of_files = steps_of_files(source, moments, &resumed);
  const std::vector<std::int64_t>& by_file = of_files.steps;
  const std::vector<std::int64_t> written = steps_of_files(source, moments, nullptr).steps;
  const std::string begins = resumed.run.run + " begins with weights that " + source.run.run + " has ";
  const std::string reads_none = ", and reads no checkpoint that " + source.run.run + " wrote";
  for (const std::int64_t step : by_file) {
    if (contains(by_weights, step)) found.begins = found.saved = step;
  }
  if (found.begins) return found;
  if (by_weights.size() > 1) {
    found.several = by_weights;
    found.why = begins + "after several steps (" + text_of(by_weights) + "): where it goes on is unknown";
  } else if (by_weights.empty() && by_file.empty()) {
    found.why = begins + "after none of its steps" + reads_none;
  } else if (by_weights.empty()) {
    found.begins = found.saved = by_file.back();
  } else if (by_weights[0] > first_step(source.run) || !by_file.empty()) {
    found.begins = by_weights[0];
    // A file of which no tensor is known may have been written long after its tensors were taken.
    const bool may_hold_them = !of_files.are_known && by_weights[0] > first_step(source.run) && !by_file.empty() &&
                               by_file.back() > by_weights[0];
    found.saved = by_file.empty() || may_hold_them ? by_weights[0] : by_file.back();
  } else if (!written.empty()) {  // a run that ignores its checkpoint
    found.begins = by_weights[0];
    found.saved = written.back();
  } else {
    found.why = begins + "before its first update" + reads_none;
  }
  return found;
}

void count_on(RunTrace& resumed, const RunTrace& source, std::int64_t step) {
  const std::int64_t updates = step - first_step(resumed);
  const bool same_world = source.world_size() == resumed.world_size();
  for (std::size_t rank = 1; same_world && laws::ddp_has(resumed, "broadcast_buffers") && rank < resumed.ranks.size();
       ++rank) {
    const Step* before = source.ranks[rank].find(step);
    if (before != nullptr && !resumed.ranks[rank].steps.empty())
      begin_as_before(resumed.ranks[rank].steps.front(), resumed.ranks[0].steps.front(), *before);
  }
  if (updates == 0) return;
  for (std::size_t rank = 0; rank < resumed.ranks.size(); ++rank) {
    const Step* before = same_world ? source.ranks[rank].find(step) : nullptr;
    for (Step& own : resumed.ranks[rank].steps) count_step_on(own, updates, before);
  }
}

bool may_lack_count(const std::string& name) {
  return name == trace::entry::kEpoch || name == trace::entry::kPasses || is_total(name);
}

}  // namespace lockstep::compare
