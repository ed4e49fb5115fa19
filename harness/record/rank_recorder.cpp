#include "harness/record/rank_recorder.h"

#include <algorithm>
#include <utility>

#include <fnmatch.h>

#include "harness/base/files.h"
#include "harness/trace/additive_digest.h"

namespace lockstep::record {
namespace {

using trace::Channel;
using trace::DType;

/// The terms of an update: laws/element_rule.h computes it again.
bool is_sampled(Channel channel) {
  return channel == Channel::kGradient || channel == Channel::kOptimizer || channel == Channel::kWeight;
}

Json with_place(Json header, std::int64_t rank, std::int64_t world_size) {
  header["rank"] = rank;
  header["world_size"] = world_size;
  return header;
}

/// Those whose tensors some layouts keep in parts.
bool is_sharded_somewhere(Channel channel) {
  return is_sampled(channel) || channel == Channel::kBuffer || channel == Channel::kEma;
}

std::vector<double> sample_of(const TensorView& tensor, std::span<const std::byte> elements) {
  if (tensor.shard == nullptr) return trace::sample_of(tensor.dtype, elements);
  std::vector<double> sample;
  for (const trace::Sampled& sampled : trace::sampled_in(*tensor.shard, tensor.shape))
    sample.push_back(trace::value_of(tensor.dtype, elements.data() + sampled.in_box * trace::bytes_of(tensor.dtype)));
  return sample;
}

}  // namespace

trace::Digest digest_of(const TensorView& tensor) {
  const Elements elements(tensor);
  return trace::digest_of(tensor.dtype, tensor.shape, elements.bytes());
}

trace::Record observe(Channel channel, std::string name, const TensorView& tensor) {
  trace::Record record{.channel = channel, .name = std::move(name), .dtype = tensor.dtype};
  record.shape.assign(tensor.shape.begin(), tensor.shape.end());
  const Elements elements(tensor);
  record.digest = trace::digest_of(tensor.dtype, tensor.shape, elements.bytes());
  if (tensor.shard != nullptr) {
    record.shard = *tensor.shard;
    record.sum = trace::additive_digest_of(tensor.dtype, *tensor.shard, tensor.shape, elements.bytes());
  } else if (is_sharded_somewhere(channel)) {
    record.sum = trace::additive_digest_of(elements.bytes());
  }
  if (trace::is_floating(tensor.dtype)) {
    record.sketch = tensor.shard == nullptr
                        ? trace::sketch_of(tensor.dtype, elements.bytes())
                        : trace::sketch_of(tensor.dtype, *tensor.shard, tensor.shape, elements.bytes());
    record.norm = record.sketch->norm;
    record.max_abs = record.sketch->max_abs;
    if (is_sampled(channel)) record.elements = sample_of(tensor, elements.bytes());
  }
  if (channel == Channel::kInput) record.rows = trace::rows_of(tensor.shape, elements.bytes());
  return record;
}

Recorder::Recorder(const std::filesystem::path& path, std::int64_t rank, std::int64_t world_size, Json header,
                   Selection selection)
    : folder_(path.parent_path()),
      rank_(rank),
      writer_(path, with_place(std::move(header), rank, world_size)),
      selection_(std::move(selection)) {}

void Recorder::begin_step(std::int64_t step) {
  step_ = step;
  line_.begin(step);
}

bool Recorder::wants(Channel channel) const { return selection_.wants(channel, step_); }

bool Recorder::captures() const {
  return std::any_of(selection_.captures.begin(), selection_.captures.end(),
                     [&](const Capture& capture) { return capture.step == step_; });
}

void Recorder::operators(const std::vector<trace::OperatorCall>& calls) {
  const std::filesystem::path path = trace::captured_operators_path(folder_, step_, rank_);
  make_directories(path.parent_path());
  write_file(path, trace::to_lines(calls));
}

void Recorder::keep(Channel channel, const std::string& name, const TensorView& tensor) {
  for (const Capture& capture : selection_.captures) {
    if (capture.step != step_ || capture.channel != channel || fnmatch(capture.tensor.c_str(), name.c_str(), 0) != 0)
      continue;
    const Elements elements(tensor);
    const auto bytes = elements.bytes();
    const std::string as = trace::captured_name(channel, name);
    kept_[as] = {.name = as,
                 .dtype = tensor.dtype,
                 .shape = {tensor.shape.begin(), tensor.shape.end()},
                 .bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
}

void Recorder::write_captured() {
  if (kept_.empty()) return;
  std::vector<trace::StoredTensor> tensors;
  for (auto& [name, tensor] : std::exchange(kept_, {})) tensors.push_back(std::move(tensor));
  const std::filesystem::path path = trace::captured_tensors_path(folder_, step_, rank_);
  make_directories(path.parent_path());
  write_file(path, trace::to_safetensors(tensors));
}

trace::Record Recorder::observe(Channel channel, std::string name, const TensorView& tensor) {
  keep(channel, name, tensor);
  return record::observe(channel, std::move(name), tensor);
}

void Recorder::tensor(Channel channel, std::string name, const TensorView& tensor) {
  if (wants(channel)) add(observe(channel, std::move(name), tensor));
}

void Recorder::integers(Channel channel, std::string name, std::span<const std::int64_t> values) {
  if (!wants(channel)) return;
  const std::int64_t count = static_cast<std::int64_t>(values.size());
  trace::Record record = observe(channel, std::move(name),
                                 {.data = values.data(), .dtype = DType::kInt64, .shape = {&count, 1}, .strides = {}});
  record.integers.assign(values.begin(), values.end());
  add(record);
}

void Recorder::integer(Channel channel, std::string name, std::int64_t value) {
  if (!wants(channel)) return;
  trace::Record record =
      observe(channel, std::move(name), {.data = &value, .dtype = DType::kInt64, .shape = {}, .strides = {}});
  record.integers = {value};
  add(record);
}

void Recorder::number(Channel channel, std::string name, double value) {
  if (!wants(channel)) return;
  trace::Record record =
      observe(channel, std::move(name), {.data = &value, .dtype = DType::kFloat64, .shape = {}, .strides = {}});
  record.number = value;
  record.sketch.reset();
  add(record);
}

void Recorder::text(Channel channel, std::string name, std::string value) {
  if (!wants(channel)) return;
  const std::int64_t count = static_cast<std::int64_t>(value.size());
  trace::Record record = observe(channel, std::move(name),
                                 {.data = value.data(), .dtype = DType::kUInt8, .shape = {&count, 1}, .strides = {}});
  record.text = std::move(value);
  add(record);
}

void Recorder::add(const trace::Record& record) {
  if (!wants(record.channel)) return;
  if (holding_) {
    held_.push_back(record);
  } else {
    line_.add(record);
  }
}

void Recorder::end_step() {
  if (selection_.is_due(step_)) writer_.write(line_.seal());
  write_captured();
}

void Recorder::drop_step() {
  line_.begin(step_);
  kept_.clear();
  holding_ = false;
  held_.clear();
}

void Recorder::release(const std::vector<Renaming>& renamings) {
  std::map<std::pair<Channel, std::string>, std::string> names;
  for (const Renaming& renaming : renamings) names[{renaming.channel, renaming.from}] = renaming.to;
  holding_ = false;
  for (trace::Record& record : std::exchange(held_, {})) {
    const auto found = names.find({record.channel, record.name});
    if (found != names.end()) record.name = found->second;
    add(record);
  }
}

void Recorder::finish() { writer_.finish(); }

}  // namespace lockstep::record
