#include "harness/record/staged_recorder.h"

#include <cstddef>
#include <memory>
#include <utility>

namespace lockstep::record {
namespace {

using trace::Channel;

/// So much is copied before the thread may begin with it: enough that what a task costs does not count.
constexpr std::size_t kTaskBytes = std::size_t{1} << 20;
constexpr std::size_t kMostTensors = 256;

constexpr std::size_t kAlignment = 8;  // of the widest element

std::size_t padded_bytes_of(const TensorView& tensor) {
  return (bytes_of(tensor) + kAlignment - 1) / kAlignment * kAlignment;
}

/// A tensor with a shape of its own.
struct OwnTensor {
  Channel channel;
  std::string name;
  trace::DType dtype;
  std::vector<std::int64_t> shape;
  const std::byte* elements;  ///< row-major
  std::optional<trace::Shard> shard;
};

OwnTensor own(NamedTensor& tensor, const std::byte* elements) {
  return {tensor.channel,    std::move(tensor.name),
          tensor.view.dtype, {tensor.view.shape.begin(), tensor.view.shape.end()},
          elements,          std::move(tensor.shard)};
}

void add_to(Recorder& recorder, Channel channel, const std::string& name, TensorView view,
            const std::optional<trace::Shard>& shard) {
  view.shard = shard ? &*shard : nullptr;
  trace::Record record = recorder.observe(channel, name, view);
  if (view.shape.empty() && !shard && trace::is_floating(view.dtype))
    record.number = trace::value_of(view.dtype, static_cast<const std::byte*>(view.data));
  recorder.add(record);
}

/// The first tensors that one task takes; at least one.
std::span<NamedTensor> first_of(std::span<NamedTensor> tensors) {
  std::size_t count = 1, bytes = padded_bytes_of(tensors[0].view);
  for (; count < std::min(tensors.size(), kMostTensors); ++count) {
    bytes += padded_bytes_of(tensors[count].view);
    if (bytes > kTaskBytes) break;
  }
  return tensors.first(count);
}

/// Copies the elements one behind the other.
std::vector<OwnTensor> copies_of(std::span<NamedTensor> tensors, std::byte* to) {
  std::vector<OwnTensor> copies;
  copies.reserve(tensors.size());
  for (NamedTensor& tensor : tensors) {
    copy_elements(tensor.view, to);
    copies.push_back(own(tensor, to));
    to += padded_bytes_of(tensor.view);
  }
  return copies;
}

}  // namespace

StagedRecorder::StagedRecorder(const std::filesystem::path& path, std::int64_t rank, std::int64_t world_size,
                               Json header, const Selection& selection, std::size_t staging_bytes)
    : selection_(selection),
      recorder_(path, rank, world_size, std::move(header), selection),
      background_(staging_bytes) {}

void StagedRecorder::begin_step(std::int64_t step) {
  background_.hand_over([this, step] { recorder_.begin_step(step); });
  step_ = step;
}

void StagedRecorder::tensors(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [this](const NamedTensor& tensor) { return !wants(tensor.channel); });
  for (std::span<NamedTensor> rest = tensors; !rest.empty();) {
    const std::span<NamedTensor> now = first_of(rest);
    rest = rest.subspan(now.size());
    std::size_t bytes = 0;
    for (const NamedTensor& tensor : now) bytes += padded_bytes_of(tensor.view);
    if (bytes > background_.capacity()) {
      background_.hand_over([this, &now] {
        for (const NamedTensor& tensor : now) add_to(recorder_, tensor.channel, tensor.name, tensor.view, tensor.shard);
      });
      background_.wait();
      continue;
    }
    std::byte* const room = background_.room(bytes);
    background_.hand_over([this, copies = copies_of(now, room)] {
      for (const OwnTensor& copy : copies)
        add_to(recorder_, copy.channel, copy.name,
               {.data = copy.elements, .dtype = copy.dtype, .shape = copy.shape, .strides = {}}, copy.shard);
    });
  }
}

void StagedRecorder::integers(Channel channel, std::string name, std::span<const std::int64_t> values) {
  if (!wants(channel)) return;
  background_.hand_over([this, channel, name = std::move(name), values = std::vector(values.begin(), values.end())] {
    recorder_.integers(channel, name, values);
  });
}

void StagedRecorder::integer(Channel channel, std::string name, std::int64_t value) {
  if (!wants(channel)) return;
  background_.hand_over([this, channel, name = std::move(name), value] { recorder_.integer(channel, name, value); });
}

void StagedRecorder::number(Channel channel, std::string name, double value) {
  if (!wants(channel)) return;
  background_.hand_over([this, channel, name = std::move(name), value] { recorder_.number(channel, name, value); });
}

void StagedRecorder::text(Channel channel, std::string name, std::string value) {
  if (!wants(channel)) return;
  background_.hand_over(
      [this, channel, name = std::move(name), value = std::move(value)] { recorder_.text(channel, name, value); });
}

void StagedRecorder::end_step() {
  background_.hand_over([this] { recorder_.end_step(); });
}

void StagedRecorder::drop_step() {
  background_.hand_over([this] { recorder_.drop_step(); });
}

void StagedRecorder::hold(bool holding) {
  background_.hand_over([this, holding] { recorder_.hold(holding); });
}

void StagedRecorder::release(std::vector<Renaming> renamings) {
  background_.hand_over([this, renamings = std::move(renamings)] { recorder_.release(renamings); });
}

void StagedRecorder::finish() {
  background_.wait();
  recorder_.finish();
}

}  // namespace lockstep::record
