#include "tests/support/tiny/rank_log.h"

#include <algorithm>
#include <fstream>

#include "harness/base/files.h"
#include "harness/trace/reader.h"

namespace lockstep::test {
namespace {

/// As the recorder reads a capture's pattern.
bool is_wanted(const recipe::CaptureSpec& capture, const trace::Record& record) {
  if (capture.channel != trace::name_of(record.channel)) return false;
  return capture.tensor == "*" || capture.tensor == record.name;
}

/// Not synchronized with the disk, as no one reads it after a crash.
void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

RankLog::RankLog(const Surroundings& around, const recipe::TrainSpec& spec, std::int64_t rank, std::int64_t world_size)
    : folder_(around.folder), spec_(spec.record), last_(spec.steps - 1) {
  trace_ = {.origin = (around.folder / trace::file_name_of_rank(rank)).string(),
            .header = around.header,
            .rank = rank,
            .world_size = world_size,
            .complete = true};
  trace_.header["rank"] = rank;
}

void RankLog::begin(std::int64_t step) {
  step_ = step;
  records_.clear();
  tensors_.clear();
  calls_.clear();
  is_captured_ = std::any_of(spec_.captures.begin(), spec_.captures.end(),
                             [&](const recipe::CaptureSpec& capture) { return capture.step == step; });
}

void RankLog::take(trace::Record record) { records_.push_back(std::move(record)); }

void RankLog::capture(const trace::Record& record, const void* elements, std::size_t size) {
  const bool wanted = std::any_of(
      spec_.captures.begin(), spec_.captures.end(),
      [&](const recipe::CaptureSpec& capture) { return capture.step == step_ && is_wanted(capture, record); });
  if (!wanted) return;
  tensors_.push_back({.name = trace::captured_name(record.channel, record.name),
                      .dtype = record.dtype,
                      .shape = record.shape,
                      .bytes = std::string(static_cast<const char*>(elements), size)});
}

void RankLog::call(const char* name, const char* phase, const std::string& parameter, std::vector<std::string> inputs,
                   std::vector<std::string> outputs) {
  if (!is_captured_) return;
  calls_.push_back({.name = name,
                    .phase = phase,
                    .node = "",
                    .parameters = parameter.empty() ? std::vector<std::string>() : std::vector{parameter},
                    .inputs = std::move(inputs),
                    .outputs = std::move(outputs)});
}

void RankLog::end() {
  if (is_captured_) {
    const auto tensors = trace::captured_tensors_path(folder_, step_, trace_.rank);
    make_directories(tensors.parent_path());
    if (!tensors_.empty()) write_bytes(tensors, trace::to_safetensors(tensors_));
    if (step_ >= 0) write_bytes(trace::captured_operators_path(folder_, step_, trace_.rank), trace::to_lines(calls_));
  }
  std::erase_if(records_, [&](const trace::Record& record) { return !spec_.holds(record.channel); });
  std::stable_sort(records_.begin(), records_.end(),
                   [](const auto& a, const auto& b) { return a.channel < b.channel; });
  if (step_ < 0 || step_ % spec_.every == 0 || step_ == last_)
    trace_.steps.push_back({.step = step_, .records = records_});
}

trace::Trace RankLog::finished() { return std::move(trace_); }

}  // namespace lockstep::test
