#include "harness/record/recorder.h"

#include <cstddef>
#include <cstring>

#include "harness/base/error.h"

namespace lockstep::record {
namespace {

using trace::Channel;
using trace::DType;

Json with_place(Json header, std::int64_t rank, std::int64_t world_size) {
  header["rank"] = rank;
  header["world_size"] = world_size;
  return header;
}

std::size_t count_of(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

bool is_dense(const TensorView& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.strides.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Row-major copy of a strided tensor.
std::vector<std::byte> gather(const TensorView& tensor) {
  const std::size_t size = trace::bytes_of(tensor.dtype);
  std::vector<std::byte> dense(count_of(tensor.shape) * size);
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  const auto* base = static_cast<const std::byte*>(tensor.data);
  for (std::size_t at = 0; at < dense.size(); at += size) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.strides[d];
    std::memcpy(dense.data() + at, base + offset * static_cast<std::int64_t>(size), size);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
  return dense;
}

}  // namespace

trace::Record observe(Channel channel, std::string name, const TensorView& tensor) {
  LOCKSTEP_CHECK(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size());
  trace::Record record{.channel = channel, .name = std::move(name), .dtype = tensor.dtype};
  record.shape.assign(tensor.shape.begin(), tensor.shape.end());
  std::span<const std::byte> elements(static_cast<const std::byte*>(tensor.data),
                                      count_of(tensor.shape) * trace::bytes_of(tensor.dtype));
  std::vector<std::byte> copy;
  if (!is_dense(tensor)) {
    copy = gather(tensor);
    elements = copy;
  }
  record.digest = trace::digest_of(tensor.dtype, tensor.shape, elements);
  if (trace::is_floating(tensor.dtype)) {
    record.sketch = trace::sketch_of(tensor.dtype, elements);
    record.norm = record.sketch->norm;
    record.max_abs = record.sketch->max_abs;
  }
  return record;
}

Recorder::Recorder(const std::filesystem::path& path, std::int64_t rank, std::int64_t world_size, Json header,
                   Selection selection)
    : writer_(path, with_place(std::move(header), rank, world_size)), selection_(std::move(selection)) {}

void Recorder::begin_step(std::int64_t step) {
  step_ = step;
  line_.begin(step);
}

bool Recorder::is_due() const { return step_ < 0 || step_ % selection_.every == 0; }

bool Recorder::wants(Channel channel) const { return is_due() && selection_.channels.contains(channel); }

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
  if (wants(record.channel)) line_.add(record);
}

void Recorder::end_step() {
  if (is_due()) writer_.write(line_.seal());
}

void Recorder::finish() { writer_.finish(); }

}  // namespace lockstep::record
