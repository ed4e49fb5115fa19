#pragma once

#include <filesystem>
#include <string>

#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/json.h"

namespace lockstep::trace {

/// Writes the trace of one rank, line by line; after each call the line outlives the process.
class Writer {
 public:
  /// Starts the file with its first line. `header` gets the key "format".
  /// *Throws*: ResourceError, also when the file is there already.
  Writer(const std::filesystem::path& path, Json header);

  /// Writes the sealed line of a step. *Throws*: ResourceError.
  void write(const std::string& line);

  /// Writes the closing line; without it the trace counts as torn.
  /// *Throws*: ResourceError.
  void finish();

 private:
  void append(const std::string& line);

  AppendFile file_;
  Sha256 hash_;
  std::size_t lines_ = 0;
};

}  // namespace lockstep::trace
