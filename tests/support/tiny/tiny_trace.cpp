#include "tests/support/tiny/tiny_trace.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "harness/base/files.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"
#include "harness/trace/writer.h"

namespace lockstep::test {
namespace {

using trace::Channel;
using trace::DType;
using trace::Record;
using trace::RunTrace;

template <typename T>
Record observed(Channel channel, const std::string& name, DType dtype, const std::vector<T>& elements,
                std::vector<std::int64_t> shape) {
  const auto bytes = std::as_bytes(std::span(elements));
  Record record{.channel = channel, .name = name, .dtype = dtype, .shape = std::move(shape)};
  record.digest = trace::digest_of(dtype, record.shape, bytes);
  if (trace::is_floating(dtype)) {
    record.sketch = trace::sketch_of(dtype, bytes);
    record.norm = record.sketch->norm;
    record.max_abs = record.sketch->max_abs;
    if (channel == Channel::kGradient || channel == Channel::kOptimizer || channel == Channel::kWeight)
      record.elements = trace::sample_of(dtype, bytes);
  }
  if (channel == Channel::kInput) record.rows = trace::rows_of(record.shape, bytes);
  return record;
}

}  // namespace

Record floats(Channel channel, const std::string& name, const std::vector<float>& elements,
              std::vector<std::int64_t> shape) {
  if (shape.empty()) shape = {static_cast<std::int64_t>(elements.size())};
  return observed(channel, name, DType::kFloat32, elements, std::move(shape));
}

Record scalar(Channel channel, const std::string& name, float value) {
  Record record = observed(channel, name, DType::kFloat32, std::vector<float>{value}, {});
  record.number = value;
  return record;
}

Record wide_floats(Channel channel, const std::string& name, const std::vector<double>& elements,
                   std::vector<std::int64_t> shape) {
  return observed(channel, name, DType::kFloat64, elements, std::move(shape));
}

Record wide_scalar(Channel channel, const std::string& name, double value) {
  Record record = observed(channel, name, DType::kFloat64, std::vector<double>{value}, {});
  record.number = value;
  return record;
}

Record integers(Channel channel, const std::string& name, const std::vector<std::int64_t>& values) {
  Record record = observed(channel, name, DType::kInt64, values, {static_cast<std::int64_t>(values.size())});
  record.integers = values;
  return record;
}

Record integer(const std::string& name, std::int64_t value) {
  Record record = observed(Channel::kLedger, name, DType::kInt64, std::vector<std::int64_t>{value}, {});
  record.integers = {value};
  return record;
}

Record number(const std::string& name, double value) {
  Record record = observed(Channel::kLedger, name, DType::kFloat64, std::vector<double>{value}, {});
  record.number = value;
  record.sketch.reset();
  return record;
}

Record text(Channel channel, const std::string& name, const std::string& value) {
  const std::vector<char> bytes(value.begin(), value.end());
  Record record = observed(channel, name, DType::kUInt8, bytes, {static_cast<std::int64_t>(bytes.size())});
  record.text = value;
  return record;
}

trace::Step& step_at(RunTrace& run, std::int64_t rank, std::int64_t step) {
  for (trace::Step& candidate : run.ranks.at(static_cast<std::size_t>(rank)).steps) {
    if (candidate.step == step) return candidate;
  }
  throw std::out_of_range("no step " + std::to_string(step));
}

Record& at(RunTrace& run, std::int64_t rank, std::int64_t step, Channel channel, const std::string& name) {
  for (Record& record : step_at(run, rank, step).records) {
    if (record.channel == channel && record.name == name) return record;
  }
  throw std::out_of_range("no record " + name + " at step " + std::to_string(step));
}

void put(RunTrace& run, std::int64_t rank, std::int64_t step, const Record& record) {
  at(run, rank, step, record.channel, record.name) = record;
}

void erase(RunTrace& run, std::int64_t rank, std::int64_t step, Channel channel, const std::string& name) {
  const Record gone = at(run, rank, step, channel, name);
  std::erase(step_at(run, rank, step).records, gone);
}

void erase_step(RunTrace& run, std::int64_t rank, std::int64_t step) {
  const trace::Step gone = step_at(run, rank, step);
  std::erase(run.ranks[static_cast<std::size_t>(rank)].steps, gone);
}

void erase_channel(RunTrace& run, Channel channel) {
  for (trace::Trace& rank : run.ranks) {
    for (trace::Step& step : rank.steps) {
      std::erase_if(step.records, [&](const Record& record) { return record.channel == channel; });
    }
  }
}

void spoil(RunTrace& run, std::int64_t rank, std::int64_t step, Channel channel, const std::string& name) {
  at(run, rank, step, channel, name).digest.low ^= 1;
}

void add_last_layer(RunTrace& run) {
  for (trace::Trace& rank : run.ranks) {
    for (trace::Step& step : rank.steps) {
      const auto is_gradient = [](const Record& record) { return record.channel == Channel::kGradient; };
      const auto last = std::find_if(step.records.rbegin(), step.records.rend(), is_gradient);
      if (last != step.records.rend())
        step.records.insert(last.base(), floats(Channel::kGradient, "out.weight", {1, 2, 3, 4}));
    }
  }
}

void write_run(const std::filesystem::path& directory, const RunTrace& run) {
  make_directories(directory);
  for (const trace::Trace& rank : run.ranks) {
    trace::Writer writer(directory / trace::file_name_of_rank(rank.rank), rank.header);
    for (const trace::Step& step : rank.steps) writer.write(trace::line_of(step));
    writer.finish();
  }
}

}  // namespace lockstep::test
