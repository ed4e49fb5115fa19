// The C interface (include/lockstep/recorder.h) over Recorder. Nothing is thrown out of here.

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "harness/base/attendance_file.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/progress_memory.h"
#include "harness/record/c_arguments.h"
#include "harness/record/c_errors.h"
#include "harness/record/staged_recorder.h"

namespace {

using lockstep::InputError;
using lockstep::record::kNoMemory;
using lockstep::record::NamedTensor;
using lockstep::record::StagedRecorder;
using lockstep::record::status_of_exception;
using lockstep::trace::Channel;

constexpr const char* kForked =
    "the recorder belongs to another process\n  expected: calls of the process that opened it\n"
    "  next:     after a fork, open a recorder of the child's own";

/// The last failure of a call without a recorder, and the text that a caller holds.
thread_local std::string failure_without_recorder, text_of_error;

[[noreturn]] void refuse(std::string what, std::string expected) {
  throw InputError({.what = std::move(what), .expected = std::move(expected)});
}

template <typename Body>
lockstep_status without_recorder(Body body) noexcept {
  try {
    body();
    return LOCKSTEP_OK;
  } catch (...) {
    return status_of_exception("", failure_without_recorder);
  }
}

/// Threads made meanwhile take no signals but those of mistakes of their own: handlers are the program's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t others;
    ::sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) ::sigdelset(&others, own);
    ::pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

/// One rank's trace, and what went wrong with it. Calls are made by one thread at a time.
struct lockstep_recorder {
 public:
  explicit lockstep_recorder(lockstep::record::Opening opening) : file_(opening.file.string()) {
    lockstep::make_directories(opening.file.parent_path());
    const SignalsBlocked blocked;
    recorder_.emplace(opening.file, opening.rank, opening.world_size, std::move(opening.header),
                      std::move(opening.selection));
    progress_.reset(
        lockstep::map_progress(opening.file.parent_path() / ("rank" + std::to_string(opening.rank) + ".progress")));
    report(lockstep::ProgressMemory::kStart);
    if (const char* run = std::getenv(lockstep::kRunIdVariable))
      lockstep::write_attendance(lockstep::attendance_path(opening.file.parent_path(), opening.rank), run,
                                 std::nullopt);
  }

  /// In the child of a fork the thread that writes is missing, and a lock may be held for ever.
  bool is_of_another_process() const { return ::getpid() != process_; }

  template <typename Body>
  lockstep_status call(Body body) noexcept {
    if (is_of_another_process()) return LOCKSTEP_MISUSE;
    const std::lock_guard lock(mutex_);
    if (recorder_ && (failed_ == LOCKSTEP_SYSTEM || failed_ == LOCKSTEP_INTERNAL)) {
      error_ = first_error_;
      return failed_;
    }
    try {
      if (!recorder_) refuse("the recorder is closed", "only error and free after close");
      body();
      return LOCKSTEP_OK;
    } catch (...) {
      return fail();
    }
  }

  /// A call that records. `add` gets the channel and the name.
  template <typename Add>
  lockstep_status record(const char* channel, const char* name, Add add) noexcept {
    return call([&] {
      require_step();
      located(channel, name, add);
    });
  }

  /// One call for many tensors: all are looked at before one is recorded.
  lockstep_status tensors(std::size_t count, const char* const* channels, const char* const* names,
                          const lockstep_tensor* tensors, const lockstep_shard* shards = nullptr) noexcept {
    return call([&] {
      require_step();
      if (count == 0) return;
      lockstep::record::require_there(channels, "channels");
      lockstep::record::require_there(names, "names");
      lockstep::record::require_there(tensors, "tensors");
      std::vector<NamedTensor> taken;
      taken.reserve(count);
      for (std::size_t i = 0; i < count; ++i) {
        located(channels[i], names[i], [&](Channel channel, const std::string& name) {
          const lockstep::record::TensorView view = lockstep::record::view_from(&tensors[i]);
          std::optional<lockstep::trace::Shard> shard;
          if (shards != nullptr) shard = lockstep::record::shard_from(shards[i], view.shape);
          taken.push_back({channel, name, view, std::move(shard)});
        });
      }
      recorder_->tensors(std::move(taken));
    });
  }

  void begin_step(std::int64_t step) {
    if (in_step_) refuse("step " + std::to_string(step_) + " has not ended", "end_step before the next begin_step");
    if (step <= step_)
      refuse("step " + std::to_string(step) + " does not come after the step before",
             step_ < lockstep::trace::kInitialStep ? "-1 or more" : "more than " + std::to_string(step_));
    recorder_->begin_step(step);
    step_ = step;
    in_step_ = true;
    report(lockstep::ProgressMemory::kInStep);
  }

  void end_step() {
    require_step();
    recorder_->end_step();
    in_step_ = false;
    ended_step_ = step_;
    report(lockstep::ProgressMemory::kRecorded);
  }

  void drop_step() {
    require_step();
    recorder_->drop_step();
    in_step_ = holds_ = false;
  }

  void hold(bool holding) {
    require_step();
    recorder_->hold(holding);
    holds_ = holds_ || holding;
  }

  void release(std::size_t count, const char* const* channels, const char* const* names, const char* const* new_names) {
    require_step();
    std::vector<lockstep::record::Renaming> renamings;
    if (count > 0) {
      lockstep::record::require_there(channels, "channels");
      lockstep::record::require_there(names, "names");
      lockstep::record::require_there(new_names, "new_names");
    }
    for (std::size_t i = 0; i < count; ++i)
      renamings.push_back({lockstep::record::channel_from(channels[i]), lockstep::record::name_from(names[i]),
                           lockstep::record::name_from(new_names[i])});
    recorder_->release(std::move(renamings));
    holds_ = false;
  }

  bool wants(Channel channel) const {
    require_step();
    return recorder_->wants(channel);
  }

  void require_step() const {
    if (!in_step_) refuse("no step has begun", "begin_step before the records of the step");
  }

  /// Ends the trace with its last line, if it holds all that it was told.
  lockstep_status close() noexcept {
    const lockstep_status status = call([&] {
      if (in_step_) refuse("step " + std::to_string(step_) + " has not ended", "end_step before close");
      if (holds_) refuse("records are held back", "release or drop_step before close");
      if (failed_ != LOCKSTEP_OK)
        throw InputError({.what = "the trace stays torn: an earlier call failed",
                          .expected = "no failed call",
                          .actual = first_error_.substr(0, first_error_.find('\n'))});
      recorder_->finish();
      report(lockstep::ProgressMemory::kDone);
    });
    if (is_of_another_process()) return status;
    const std::lock_guard lock(mutex_);
    recorder_.reset();
    return status;
  }

  StagedRecorder& recorder() { return *recorder_; }

  std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  /// A sign of life for who supervises the rank.
  void report(lockstep::ProgressMemory::RecordedPhase phase) {
    progress_->report(in_step_ ? step_ : ended_step_, phase);
  }

  /// Calls `body` with the channel and the name. What it refuses is told with them.
  template <typename Body>
  void located(const char* channel, const char* name, Body body) const {
    const Channel to = lockstep::record::channel_from(channel);
    const std::string as = lockstep::record::name_from(name);
    try {
      body(to, as);
    } catch (const InputError& error) {
      lockstep::Problem problem = error.problem();
      problem.where = place() + ", " + channel + " '" + as + "'";
      throw InputError(problem);
    }
  }

  std::string place() const { return file_ + (in_step_ ? ", step " + std::to_string(step_) : ""); }

  /// Remembers the exception that is being handled: the trace is no whole one any more.
  lockstep_status fail() noexcept {
    std::string where;
    try {
      where = place();
      const lockstep_status status = status_of_exception(where, error_);
      if (failed_ == LOCKSTEP_OK || status != LOCKSTEP_MISUSE) {
        first_error_ = error_;
        failed_ = status;
      }
      return status;
    } catch (...) {
      error_ = first_error_ = kNoMemory;
      return failed_ = LOCKSTEP_SYSTEM;
    }
  }

  const pid_t process_ = ::getpid();
  const std::string file_;
  mutable std::mutex mutex_;
  std::unique_ptr<lockstep::ProgressMemory, decltype(&lockstep::unmap_progress)> progress_{nullptr,
                                                                                           &lockstep::unmap_progress};
  std::optional<StagedRecorder> recorder_;                 ///< nothing: closed
  std::int64_t step_ = lockstep::trace::kInitialStep - 1;  ///< the last one begun
  std::int64_t ended_step_ = lockstep::trace::kInitialStep;
  bool in_step_ = false;
  bool holds_ = false;                    ///< records wait for a step
  lockstep_status failed_ = LOCKSTEP_OK;  ///< the worst of all calls
  std::string first_error_, error_;
};

namespace {

/// Any call with a recorder.
template <typename Body>
lockstep_status with(lockstep_recorder* recorder, Body body) noexcept {
  if (recorder == nullptr) return without_recorder([] { lockstep::record::require_there(nullptr, "recorder"); });
  return body(*recorder);
}

template <typename Add>
lockstep_status record(lockstep_recorder* to, const char* channel, const char* name, Add add) noexcept {
  return with(to, [&](lockstep_recorder& recorder) {
    return recorder.record(channel, name, [&](Channel at, const std::string& as) { add(recorder.recorder(), at, as); });
  });
}

}  // namespace

extern "C" {

int lockstep_recorder_abi(void) { return LOCKSTEP_RECORDER_ABI; }

lockstep_status lockstep_recorder_open(const lockstep_recorder_config* config, lockstep_recorder** recorder) {
  return without_recorder([&] {
    lockstep::record::require_there(recorder, "recorder");
    *recorder = nullptr;
    *recorder = new lockstep_recorder(lockstep::record::opening_from(config));
  });
}

lockstep_status lockstep_recorder_begin_step(lockstep_recorder* recorder, int64_t step) {
  return with(recorder, [&](lockstep_recorder& r) { return r.call([&] { r.begin_step(step); }); });
}

lockstep_status lockstep_recorder_wants(lockstep_recorder* recorder, const char* channel, int* wanted) {
  return with(recorder, [&](lockstep_recorder& r) {
    return r.call([&] {
      lockstep::record::require_there(wanted, "wanted");
      *wanted = r.wants(lockstep::record::channel_from(channel)) ? 1 : 0;
    });
  });
}

lockstep_status lockstep_recorder_tensor(lockstep_recorder* recorder, const char* channel, const char* name,
                                         const lockstep_tensor* tensor) {
  return record(recorder, channel, name, [&](StagedRecorder& to, Channel at, const std::string& as) {
    to.tensors({{at, as, lockstep::record::view_from(tensor)}});
  });
}

lockstep_status lockstep_recorder_tensors(lockstep_recorder* recorder, size_t count, const char* const* channels,
                                          const char* const* names, const lockstep_tensor* tensors) {
  return with(recorder, [&](lockstep_recorder& r) { return r.tensors(count, channels, names, tensors); });
}

lockstep_status lockstep_recorder_shards(lockstep_recorder* recorder, size_t count, const char* const* channels,
                                         const char* const* names, const lockstep_tensor* tensors,
                                         const lockstep_shard* shards) {
  return with(recorder, [&](lockstep_recorder& r) {
    if (count > 0 && shards == nullptr) return r.call([] { lockstep::record::require_there(nullptr, "shards"); });
    return r.tensors(count, channels, names, tensors, shards);
  });
}

lockstep_status lockstep_recorder_number(lockstep_recorder* recorder, const char* channel, const char* name,
                                         double value) {
  return record(recorder, channel, name,
                [&](auto& to, Channel at, const std::string& as) { to.number(at, as, value); });
}

lockstep_status lockstep_recorder_integer(lockstep_recorder* recorder, const char* channel, const char* name,
                                          int64_t value) {
  return record(recorder, channel, name,
                [&](auto& to, Channel at, const std::string& as) { to.integer(at, as, value); });
}

lockstep_status lockstep_recorder_integers(lockstep_recorder* recorder, const char* channel, const char* name,
                                           const int64_t* values, size_t count) {
  return record(recorder, channel, name, [&](auto& to, Channel at, const std::string& as) {
    lockstep::record::require_array(values, count);
    to.integers(at, as, std::span(values, count));
  });
}

lockstep_status lockstep_recorder_text(lockstep_recorder* recorder, const char* channel, const char* name,
                                       const char* text) {
  return record(recorder, channel, name, [&](auto& to, Channel at, const std::string& as) {
    lockstep::record::require_there(text, "text");
    to.text(at, as, text);
  });
}

lockstep_status lockstep_recorder_end_step(lockstep_recorder* recorder) {
  return with(recorder, [](lockstep_recorder& r) { return r.call([&] { r.end_step(); }); });
}

lockstep_status lockstep_recorder_drop_step(lockstep_recorder* recorder) {
  return with(recorder, [](lockstep_recorder& r) { return r.call([&] { r.drop_step(); }); });
}

lockstep_status lockstep_recorder_hold(lockstep_recorder* recorder, int holding) {
  return with(recorder, [&](lockstep_recorder& r) { return r.call([&] { r.hold(holding != 0); }); });
}

lockstep_status lockstep_recorder_release(lockstep_recorder* recorder, size_t count, const char* const* channels,
                                          const char* const* names, const char* const* new_names) {
  return with(recorder,
              [&](lockstep_recorder& r) { return r.call([&] { r.release(count, channels, names, new_names); }); });
}

lockstep_status lockstep_recorder_digest(const lockstep_tensor* tensor, char* text) {
  return without_recorder([&] {
    lockstep::record::require_there(text, "text");
    const std::string digits =
        lockstep::trace::to_text(lockstep::record::digest_of(lockstep::record::view_from(tensor)));
    LOCKSTEP_CHECK(digits.size() + 1 == LOCKSTEP_RECORDER_DIGEST_SIZE);
    std::copy_n(digits.c_str(), LOCKSTEP_RECORDER_DIGEST_SIZE, text);
  });
}

lockstep_status lockstep_recorder_close(lockstep_recorder* recorder) {
  return with(recorder, [](lockstep_recorder& r) { return r.close(); });
}

void lockstep_recorder_free(lockstep_recorder* recorder) {
  // The child of a fork could only wait for a thread that it does not have.
  if (recorder != nullptr && !recorder->is_of_another_process()) delete recorder;
}

const char* lockstep_recorder_error(const lockstep_recorder* recorder) {
  if (recorder != nullptr && recorder->is_of_another_process()) return kForked;
  try {
    text_of_error = recorder == nullptr ? failure_without_recorder : recorder->error();
    return text_of_error.c_str();
  } catch (...) {
    return kNoMemory;
  }
}

}  // extern "C"
