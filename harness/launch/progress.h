#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::launch {

/// Where a rank is inside a step, in the order in which it gets there.
enum class Phase : std::int32_t { kStart, kData, kForward, kBackward, kOptimizer, kRecord, kDone };

std::string_view name_of(Phase phase);

/// Last sign of life of a rank.
struct Progress {
  std::int64_t step = -1;  ///< −1: not in a step yet
  Phase phase = Phase::kStart;
  std::uint64_t collectives = 0;  ///< issued so far; of ranks in one phase, the one that hangs has issued the fewest
  std::string collective;         ///< the last one issued, "allreduce Float[650] SUM"; cut to 47 characters
  std::string previous;           ///< the one before it
  std::uint64_t before_step = 0;  ///< collectives issued before this step
  std::uint64_t beats = 0;        ///< grows with every sign of life

  bool operator==(const Progress&) const = default;
};

/// A rank's side: a few bytes of shared memory in a file, written without a system call, readable after its death.
class ProgressWriter {
 public:
  /// *Throws*: ResourceError.
  explicit ProgressWriter(const std::filesystem::path& path);
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  void report(std::int64_t step, Phase phase);

  /// Says that one more collective is issued, and which. From any thread, one at a time.
  void count_collective(std::string_view collective);

 private:
  void* memory_ = nullptr;
};

/// The supervisor's side. A missing or short file reads as "not started".
Progress read_progress(const std::filesystem::path& path);

/// File of one rank in the directory of its run: "rank3.progress".
std::filesystem::path progress_path(const std::filesystem::path& run_directory, std::int64_t rank);

}  // namespace lockstep::launch
