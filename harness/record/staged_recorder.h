#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/record/background.h"
#include "harness/record/rank_recorder.h"

namespace lockstep::record {

/// A tensor, and the record that it becomes.
struct NamedTensor {
  trace::Channel channel;
  std::string name;
  TensorView view;
  std::optional<trace::Shard> shard = {};  ///< where it lies in a tensor; nothing: it is whole
};

/// A Recorder that works on a thread of its own: calls copy what they are given, and return.
///
/// Its trace is the one that a Recorder would write. One thread at a time calls. A failure is thrown by a later call,
/// and by all that follow. *Throws*: ResourceError, std::bad_alloc.
class StagedRecorder {
 public:
  /// Copies that wait take no more than this.
  static constexpr std::size_t kStagingBytes = std::size_t{128} << 20;

  StagedRecorder(const std::filesystem::path& path, std::int64_t rank, std::int64_t world_size, Json header,
                 const Selection& selection, std::size_t staging_bytes = kStagingBytes);

  bool wants(trace::Channel channel) const { return selection_.wants(channel, step_); }

  void begin_step(std::int64_t step);

  /// Records those that are wanted, a floating scalar with its value. Where there is no room for the copies, waits for
  /// it; a tensor larger than all the room is not copied but waited for.
  void tensors(std::vector<NamedTensor> tensors);
  void integers(trace::Channel channel, std::string name, std::span<const std::int64_t> values);
  void integer(trace::Channel channel, std::string name, std::int64_t value);
  void number(trace::Channel channel, std::string name, double value);
  void text(trace::Channel channel, std::string name, std::string value);

  void end_step();
  void drop_step();
  void hold(bool holding);
  void release(std::vector<Renaming> renamings);

  /// Waits until all is recorded, and closes the trace.
  void finish();

 private:
  const Selection selection_;
  std::int64_t step_ = trace::kInitialStep;
  Recorder recorder_;      ///< of the thread, while there is something to do
  Background background_;  ///< last: it uses the recorder
};

}  // namespace lockstep::record
