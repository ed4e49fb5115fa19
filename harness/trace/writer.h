#pragma once

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/json.h"

namespace lockstep::trace {

/// Writes the trace of one rank, line by line, each while the training goes on: neither the disk nor SHA-256 is waited
/// for, and what is handed over is on its way within a millisecond.
class Writer {
 public:
  /// Starts the file with its first line. `header` gets the key "format".
  /// *Throws*: ResourceError, also when the file is there already.
  Writer(const std::filesystem::path& path, Json header);

  /// Writes out what was handed over; the trace stays torn when it was not finished.
  ~Writer();

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Hands over the sealed line of a step, once the one before is written.
  /// *Throws*: ResourceError, when that one could not be.
  void write(std::string line);

  /// Waits until every line outlives the process. *Throws*: ResourceError.
  void flush();

  /// Writes the closing line; without it the trace counts as torn.
  /// *Throws*: ResourceError.
  void finish();

 private:
  void append(const std::string& line);
  void work();

  AppendFile file_;
  Sha256 hash_;
  std::size_t lines_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> handed_over_;  ///< until somebody begins to write it
  bool writing_ = false;                    ///< the thread does
  std::exception_ptr failure_;
  bool closing_ = false;
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace lockstep::trace
