#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/record/elements.h"
#include "harness/trace/capture.h"
#include "harness/trace/line.h"
#include "harness/trace/trace.h"
#include "harness/trace/writer.h"

namespace lockstep::record {

/// Identity of its elements in row-major order.
trace::Digest digest_of(const TensorView& tensor);

/// Digest, and for floating tensors norm, maximum and sketch; copies only when the strides are not dense row-major.
trace::Record observe(trace::Channel channel, std::string name, const TensorView& tensor);

/// Records of one step whose elements are kept beside the trace.
struct Capture {
  std::int64_t step = 0;
  std::optional<trace::Channel> channel;  ///< nothing: no elements, only the operators
  std::string tensor;                     ///< '*' stands for any characters
};

/// Another name for a record that was held back.
struct Renaming {
  trace::Channel channel;
  std::string from, to;
};

/// Channels and steps to record.
struct Selection {
  std::set<trace::Channel> channels;
  std::int64_t every = 1;  ///< steps −1, 0, every, 2·every, …
  std::vector<Capture> captures;
  std::optional<std::int64_t> last = {};  ///< the last step, where it is known; it is recorded, too

  bool is_due(std::int64_t step) const { return step < 0 || step % every == 0 || step == last; }
  bool wants(trace::Channel channel, std::int64_t step) const { return is_due(step) && channels.contains(channel); }
};

/// Records the trace of one rank: one line a step, its records by channel.
///
/// Knows nothing of LibTorch: everything that trains records through it.
class Recorder {
 public:
  /// Starts the trace file. `header` says what is run: scenario, variant, environment, …
  /// *Throws*: ResourceError.
  Recorder(const std::filesystem::path& path, std::int64_t rank, std::int64_t world_size, Json header,
           Selection selection);

  void begin_step(std::int64_t step);

  /// Whether a record of this channel would be kept in the current step; ask before costly work.
  bool wants(trace::Channel channel) const;

  /// Whether somebody looks closely at the current step: its operators are to be logged.
  bool captures() const;
  void operators(const std::vector<trace::OperatorCall>& calls);

  void tensor(trace::Channel channel, std::string name, const TensorView& tensor);
  /// A record to be added later; its elements are kept now, if somebody wants them.
  trace::Record observe(trace::Channel channel, std::string name, const TensorView& tensor);
  void integers(trace::Channel channel, std::string name, std::span<const std::int64_t> values);
  void integer(trace::Channel channel, std::string name, std::int64_t value);
  void number(trace::Channel channel, std::string name, double value);
  void text(trace::Channel channel, std::string name, std::string value);

  /// Adds a record made earlier by `observe`.
  void add(const trace::Record& record);

  /// Writes the step's line. *Throws*: ResourceError.
  void end_step();

  /// Forgets the step that has begun, and what is held back.
  void drop_step();

  /// Whether records are held back from now on, until it is known which step they belong to.
  void hold(bool holding) { holding_ = holding; }

  /// Adds what was held back to the step, and holds nothing back.
  void release(const std::vector<Renaming>& renamings);

  /// Closes the trace; without it the trace counts as torn. *Throws*: ResourceError.
  void finish();

 private:
  void keep(trace::Channel channel, const std::string& name, const TensorView& tensor);
  void write_captured();

  std::filesystem::path folder_;
  std::int64_t rank_;
  trace::Writer writer_;
  Selection selection_;
  std::int64_t step_ = trace::kInitialStep;
  trace::LineBuilder line_;
  bool holding_ = false;
  std::vector<trace::Record> held_;
  std::map<std::string, trace::StoredTensor> kept_;  ///< of this step, by captured name
};

}  // namespace lockstep::record
