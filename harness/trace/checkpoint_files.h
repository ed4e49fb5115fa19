#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::trace {

/// A checkpoint that a recorded rank wrote or read, as its recorder reported beside the trace.
struct CheckpointFile {
  bool written = false;      ///< else read
  std::int64_t updates = 0;  ///< that the process had done when it was written or read: its tensors may be older
  std::string sha256;        ///< of the file's content; empty where it is not known
  std::int64_t rank = 0;     ///< that wrote or read it
  std::string name;          ///< of the file, without its folder; empty where it is not known
  std::optional<std::map<std::string, std::string>> tensors;  ///< that were written, with their digests as a trace has
                                                              ///< them; nothing: unknown

  bool operator==(const CheckpointFile&) const = default;
};

/// Reads checkpoints.rank0.jsonl, … of a run, rank by rank. A rank that wrote and read none has no file.
/// *Throws*: DamagedFile for a line that cannot be understood.
std::vector<CheckpointFile> read_checkpoint_files(const std::filesystem::path& run, std::int64_t world_size);

}  // namespace lockstep::trace
